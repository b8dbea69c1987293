import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { writeSumModel } from '../fixtures/sequence-models.ts';
import { type MillraceProcess, startMillrace } from '../support/process.ts';
import { type RedisServer, startRedis, until } from '../support/redis.ts';

interface Answer {
  readonly status: number;
  readonly sum: number | undefined;
  readonly error: string | undefined;
}

describe('sequences, when a worker process is killed', () => {
  let folder = '';
  let redis: RedisServer;
  const processes: MillraceProcess[] = [];

  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'millrace-sequences-'));
    writeSumModel(join(folder, 'sum'), { maxBatchSize: 16, batching: 'max_sequence_idle_microseconds: 60000000' });
    redis = await startRedis();
  });
  afterEach(async () => {
    for (const process of processes) process.kill('SIGKILL');
    await Promise.all(processes.splice(0).map((process) => process.exited));
    await redis.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  async function start(args: readonly string[]): Promise<MillraceProcess> {
    const process = await startMillrace([...args, `--redis=${redis.url}`]);
    processes.push(process);
    return process;
  }

  async function add(producer: MillraceProcess, id: number, x: number, flags: object = {}): Promise<Answer> {
    const response = await fetch(`${producer.url}/v2/models/sum/infer`, {
      method: 'POST',
      body: JSON.stringify({
        parameters: { sequence_id: id, ...flags },
        inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 1], data: [x] }],
      }),
    });
    const body = (await response.json()) as { error?: string; outputs?: { data: number[] }[] };
    return { status: response.status, sum: body.outputs?.[0]?.data[0], error: body.error };
  }

  it('are lost within seconds and begin anew at another, those of the others go on', async () => {
    const worker = () => start(['worker', `--model-repository=${folder}`]);
    const [victim] = await Promise.all([worker(), worker()]);
    const [a, b] = await Promise.all([start(['producer']), start(['producer'])]);
    for (const producer of [a, b]) {
      await until('it is ready', async () => (await fetch(`${producer.url}/v2/models/sum/ready`)).ok);
    }
    const ids = [1, 2, 3, 4, 5, 6, 7, 8];
    const first = await Promise.all(ids.map((id) => add(a, id, id, { sequence_start: true })));
    expect(first.map(({ sum }) => sum)).toEqual(ids);
    victim.kill('SIGKILL');
    await victim.exited;
    const killedMs = performance.now();
    const second = await Promise.all(ids.map((id) => add(id % 2 ? a : b, id, id)));
    expect(performance.now() - killedMs).toBeLessThan(15_000);
    const lost = ids.filter((_, index) => second[index]!.status !== 200);
    expect(lost.length).toBeGreaterThan(0);
    expect(lost.length).toBeLessThan(ids.length);
    for (const [index, id] of ids.entries()) {
      const { status, sum, error } = second[index]!;
      if (!lost.includes(id)) expect(sum).toBe(2 * id);
      else {
        expect(status).toBe(503);
        expect(error).toMatch(/was lost: .*it must be started again, with the START flag/);
      }
    }
    const third = await Promise.all(
      ids.map((id) => add(id % 2 ? b : a, id, id, { sequence_start: lost.includes(id) })),
    );
    expect(third.map(({ sum }) => sum)).toEqual(ids.map((id) => (lost.includes(id) ? id : 3 * id)));
    const queues = async () => {
      const names = (await redis.client().keys('{millrace}:sum@@*:*')).map((key) => key.split(':')[1]);
      return [...new Set(names)];
    };
    await until('nothing is left of the queue of the dead', async () => (await queues()).length === 1, 20_000);
    const [left] = await queues();
    await until(
      'it is off the list and the dashboards',
      async () => {
        const pages = await Promise.all([a, b].map(({ url }) => fetch(`${url}/dashboard/api/queues`)));
        const shown = (await Promise.all(pages.map((page) => page.json()))) as { queues: { name: string }[] }[];
        const own = shown.flatMap(({ queues }) => queues.map(({ name }) => name).filter((name) => name.includes('@@')));
        return own.length === 2 && own.every((name) => name === left);
      },
      20_000,
    );
    expect(await redis.client().hkeys('{millrace}.worker-queues')).toEqual([left]);
  });
});
