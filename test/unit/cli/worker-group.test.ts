import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { chosenGpus } from '../../../cli/gpu-choice.ts';
import { membersOf } from '../../../cli/gpu-workers.ts';
import { type Member, WorkerGroup } from '../../../cli/worker-group.ts';
import type { Logger } from '../../../shared/runtime/logger.ts';
import { until } from '../../support/redis.ts';

const TIMES = { firstPauseMs: 10, longestPauseMs: 20, healthyMs: 60_000 };
const folder = mkdtempSync(join(tmpdir(), 'millrace-group-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe('a group of worker processes', () => {
  const errors: object[] = [];
  const logger: Logger = { debug() {}, info() {}, warn() {}, error: (fields) => void errors.push(fields) };
  const member = (name: string, script: string): Member => ({
    name,
    command: [process.execPath, '-e', script],
    env: { ...process.env, MARKS: join(folder, name) },
  });
  const mark = `require('fs').appendFileSync(process.env.MARKS, '.');`;
  const STAYS = `process.on('SIGTERM', () => process.exit(0)); setInterval(() => {}, 1000); ${mark}`;
  const marks = (name: string): number => {
    try {
      return readFileSync(join(folder, name)).length;
    } catch {
      return 0; // it has not begun
    }
  };

  it('passes the signal on and ends with 0 when all have left', async () => {
    const group = new WorkerGroup([member('a', STAYS), member('b', STAYS)], logger, TIMES);
    const ended = group.run();
    await until('both run', () => marks('a') === 1 && marks('b') === 1);
    group.stop('SIGTERM');
    expect(await ended).toBe(0);
  });

  it('starts again what fails, while another lives', async () => {
    const group = new WorkerGroup([member('c', STAYS), member('d', `${mark} process.exit(3)`)], logger, TIMES);
    const ended = group.run();
    await until('it was started often', () => marks('d') >= 5 && marks('c') === 1);
    group.stop('SIGTERM');
    await ended;
    expect(errors).toContainEqual(expect.objectContaining({ name: 'd', how: '3', failures: 2 }));
  });

  it('ends with 1 when nothing can be kept alive', async () => {
    const fails = `${mark} process.exit(1)`;
    expect(await new WorkerGroup([member('e', fails), member('f', fails)], logger, TIMES).run()).toBe(1);
    expect(Math.min(marks('e'), marks('f'))).toBeGreaterThanOrEqual(3);
  });

  it('does not repeat a command that is wrong, nor one that has done its work', async () => {
    expect(await new WorkerGroup([member('g', `${mark} process.exit(2)`)], logger, TIMES).run()).toBe(2);
    expect(await new WorkerGroup([member('h', mark)], logger, TIMES).run()).toBe(0);
    expect([marks('g'), marks('h')]).toEqual([1, 1]);
  });

  it('repeats one that cannot begin while another does its work, which goes on', async () => {
    const members = [member('j', STAYS), member('k', `${mark} setTimeout(() => process.exit(2), 50)`)];
    const group = new WorkerGroup(members, logger, { ...TIMES, healthyMs: 1 });
    const ended = group.run();
    await until('it was started often', () => marks('k') >= 3 && marks('j') === 1);
    group.stop('SIGTERM');
    expect(await ended).toBe(0);
  });

  it('says what cannot be started', async () => {
    const missing: Member = { name: 'i', command: [join(folder, 'missing')], env: {} };
    expect(await new WorkerGroup([missing], logger, TIMES).run()).toBe(1);
    expect(errors).toContainEqual(
      expect.objectContaining({ name: 'i', how: expect.stringContaining('ENOENT') as string }),
    );
  });
});

describe('--gpus', () => {
  it('takes numbers, uuids, all and off', async () => {
    expect(await chosenGpus(undefined)).toBeUndefined();
    expect(await chosenGpus('off')).toBeUndefined();
    expect(await chosenGpus('0, 2')).toEqual(['0', '2']);
    expect(await chosenGpus('GPU-6f1c,MIG-a/b')).toEqual(['GPU-6f1c', 'MIG-a/b']);
    expect(await chosenGpus('all', '3,1')).toEqual(['3', '1']);
    await expect(chosenGpus('all', undefined, join(folder, 'missing'))).rejects.toThrow('name them: --gpus=0,1');
  });

  it.each(['', '0;1', '-1', 'first', '0,,1', Array.from({ length: 65 }, (_, index) => index).join(',')])(
    'refuses %j',
    async (text) => {
      await expect(chosenGpus(text)).rejects.toThrow('--gpus expects numbers or uuids of up to 64 GPUs');
    },
  );

  it('is a process for each, which sees that one and has a metrics port of its own', () => {
    const settings = { metricsPort: 8002, allowMetrics: true };
    const members = membersOf(['0', 'GPU-a'], ['--gpus=0,GPU-a', '--redis=x'], settings, { A: 'b' });
    expect(members.map(({ env }) => env)).toEqual([
      { A: 'b', CUDA_VISIBLE_DEVICES: '0' },
      { A: 'b', CUDA_VISIBLE_DEVICES: 'GPU-a' },
    ]);
    expect(members[1]?.command.slice(-5)).toEqual([
      'worker',
      '--gpus=0,GPU-a',
      '--redis=x',
      '--gpus=off',
      '--metrics-port=8003',
    ]);
    expect(() => membersOf(['0', '1'], [], { metricsPort: 65_535, allowMetrics: true }, {})).toThrow('at most 65535');
    expect(membersOf(['0', '1'], [], { metricsPort: 0, allowMetrics: true }, {})[1]?.command.at(-1)).toBe(
      '--metrics-port=0',
    );
  });
});
