import { chmodSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { GpuView, PoolView, WorkerView } from '../../producer/pool/pool-view.ts';
import { identity } from '../fixtures/graphs.ts';
import { type GpuRuntime, gpuRuntime, SKIP_GPU } from '../support/gpu-runtime.ts';
import { writeModel } from '../support/onnx/model.ts';
import { type MillraceProcess, runMillrace, startMillrace } from '../support/process.ts';
import { type RedisServer, startRedis, until } from '../support/redis.ts';

/** A worker starts anew, on a machine that may be busy. */
const START_MS = 60_000;

const SMI = `#!/bin/sh
case "$1" in --query-gpu=uuid) printf 'GPU-aa\\nGPU-bb\\n'; exit;; esac
while echo 'GPU-aa, 25, 1024, 8192, 40, 50, 0, Card A'; do
  echo 'GPU-bb, 75, 2048, 8192, 40, 50, 1, Card B'
  sleep 1
done
`;

describe.skipIf(SKIP_GPU)('workers with a GPU each, on a pretend CUDA runtime', () => {
  let runtime: GpuRuntime;
  let root = '';
  let redis: RedisServer;
  let producer: MillraceProcess;
  let group: MillraceProcess;

  beforeAll(async () => {
    runtime = await gpuRuntime();
    root = await mkdtemp(join(tmpdir(), 'millrace-gpu-pool-'));
    writeModel(join(root, 'models', 'echo', '1', 'model.onnx'), identity('FP32'));
    writeFileSync(join(root, 'models', 'echo', 'config.pbtxt'), 'instance_group { kind: KIND_GPU }');
    writeFileSync(join(root, 'nvidia-smi'), SMI);
    chmodSync(join(root, 'nvidia-smi'), 0o755);
    redis = await startRedis();
    producer = await startMillrace(['producer', `--redis=${redis.url}`, '--strict-readiness=false']);
    group = await startWorkers();
  }, 400_000);
  afterAll(async () => {
    await group.stop('SIGKILL');
    await producer.stop('SIGKILL');
    await redis.stop();
    await rm(root, { recursive: true, force: true });
  });

  const startWorkers = () =>
    startMillrace(['worker', '--gpus=all', `--redis=${redis.url}`, `--model-repository=${join(root, 'models')}`], {
      env: { LD_LIBRARY_PATH: runtime.fake, MILLRACE_GPU_DIR: runtime.folder, PATH: `${root}:${process.env['PATH']!}` },
    });
  const workers = async (): Promise<readonly WorkerView[]> =>
    ((await (await fetch(`${producer.url}/pool`)).json()) as PoolView).workers;
  const gpuOf = ({ devices }: WorkerView) => devices.find((device): device is GpuView => device.kind === 'gpu');
  const uuids = async () => (await workers()).map((worker) => gpuOf(worker)?.uuid ?? '').sort();
  const both = () => until('both GPUs have a worker', async () => (await uuids()).join() === 'GPU-aa,GPU-bb', START_MS);

  it('are a process for each, which the pool shows with what it runs on', async () => {
    await both();
    const seen = (await workers()).map(gpuOf).sort((a, b) => (a!.name < b!.name ? -1 : 1));
    expect(seen[1]).toEqual({
      kind: 'gpu',
      name: 'Card B',
      count: 1,
      index: 0,
      uuid: 'GPU-bb',
      memory_total_bytes: 8192 * 1024 * 1024,
      memory_used_bytes: 2048 * 1024 * 1024,
      utilization: 0.75,
    });
    const { stdout } = await runMillrace(['pool'], { env: { MILLRACE_URL: producer.url } });
    expect(stdout).toMatch(/GPU-aa +\S+ +Card A +1\.0 of 8\.0 GiB +25%/);
    const inputs = [{ name: 'x', datatype: 'FP32', shape: [1, 2], data: [1, 2] }];
    const body = JSON.stringify({ inputs });
    expect((await fetch(`${producer.url}/v2/models/echo/infer`, { method: 'POST', body })).status).toBe(200);
  });

  it('get a new process where one was killed', async () => {
    const [victim] = await workers();
    process.kill(victim!.pid, 'SIGKILL');
    await until(
      'it has left the pool',
      async () => !(await workers()).some(({ pid }) => pid === victim!.pid),
      START_MS,
    );
    await both();
    expect(group.stderr()).toContain('it is started again');
  });

  it('leave with the process that keeps them, however it ends', async () => {
    group.killAll('SIGINT');
    expect(await group.exited).toBe(0);
    await until('all have left', async () => (await workers()).length === 0, START_MS);
    group = await startWorkers();
    await both();
    process.kill(group.pid, 'SIGKILL');
    await until('all have left', async () => (await workers()).length === 0, START_MS);
  });
});
