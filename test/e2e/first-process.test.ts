import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ROOT } from '../support/process.ts';
import { until } from '../support/redis.ts';

/** Whether a process may be made the first of a space of its own, as in a container; needs Linux and the right to it. */
const canBeFirst = ((): boolean => {
  try {
    execFileSync('unshare', ['--pid', '--fork', 'true'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
})();

describe.runIf(canBeFirst)('the first process of a container', () => {
  let folder = '';
  let outer: ChildProcess | undefined;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'millrace-first-'));
  });
  afterEach(() => {
    outer?.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  });

  it('leaves on SIGTERM while nvidia-smi does not answer', async () => {
    const asked = join(folder, 'asked');
    const smi = join(folder, 'nvidia-smi');
    writeFileSync(smi, `#!/bin/sh\ntouch '${asked}'\nexec sleep 30\n`);
    chmodSync(smi, 0o755);
    const command = [process.execPath, join(ROOT, 'dist', 'cli', 'main.js'), 'worker', '--gpus=all'];
    const env: NodeJS.ProcessEnv = { ...process.env, PATH: `${folder}:${process.env['PATH'] ?? ''}` };
    delete env['CUDA_VISIBLE_DEVICES']; // with it nobody is asked
    const child = spawn('unshare', ['--pid', '--fork', '--kill-child', ...command, `--model-repository=${folder}`], {
      env,
      stdio: 'ignore',
    });
    outer = child;
    const exited = new Promise<number | null>((resolve) => child.once('exit', resolve));
    await until('nvidia-smi is asked', () => existsSync(asked));
    const inner = readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8').trim();
    process.kill(Number(inner), 'SIGTERM');
    const patience = new Promise((resolve) => setTimeout(resolve, 10_000, 'still there').unref());
    expect(await Promise.race([exited, patience])).toBe(143);
  });
});
