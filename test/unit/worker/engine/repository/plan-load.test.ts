import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { InferError } from '../../../../../shared/errors.ts';
import { ModelStats } from '../../../../../shared/infer/model-stats.ts';
import { parseModelConfig } from '../../../../../shared/model/parse-config.ts';
import { silentLogger } from '../../../../../shared/runtime/logger.ts';
import { RunSlots } from '../../../../../worker/engine/execute/run-slots.ts';
import type { Backend, LoadOptions } from '../../../../../worker/engine/instance/instance.ts';
import { fingerprintModel } from '../../../../../worker/engine/repository/fingerprint.ts';
import { planLoad } from '../../../../../worker/engine/repository/plan-load.ts';
import { SharedSessions } from '../../../../../worker/engine/repository/shared-sessions.ts';
import { WorkLine } from '../../../../../worker/engine/repository/work-line.ts';
import { DeadlineSweep } from '../../../../../worker/engine/schedule/deadline-sweep.ts';
import { ModelSequences } from '../../../../../worker/engine/sequence/model-sequences.ts';
import { FakeClock } from '../support/fake-clock.ts';

let path: string;

beforeEach(async () => {
  path = await mkdtemp(join(tmpdir(), 'plan-load-'));
  await mkdir(join(path, '1'));
  await writeFile(join(path, '1', 'model.onnx'), 'x');
});

afterEach(() => rm(path, { recursive: true }));

/** A backend with a GPU, whose methods are of a class: nothing may depend on what a spread copies. */
class GpuBackend implements Backend {
  readonly asked: LoadOptions[] = [];

  load(options: LoadOptions) {
    this.asked.push(options);
    return Promise.reject(new InferError('INVALID_ARGUMENT', 'far enough'));
  }

  devices() {
    return Promise.resolve({ gpus: [0, 1], installed: true, reason: '' });
  }
}

/** Loads the version, and says what the backend was asked for. */
async function load(backend: Backend & { asked: LoadOptions[] }, config: string, fingerprinted: boolean) {
  const clock = new FakeClock();
  const source = { name: 'm', path, config: parseModelConfig(`name: "m" ${config}`, 'config.pbtxt'), versions: ['1'] };
  const plan = await planLoad({
    now: { source, fingerprint: fingerprinted ? await fingerprintModel(path) : undefined },
    before: undefined,
    members: { find: () => undefined } as never, // there are no ensembles here
    context: {
      backend,
      clock,
      logger: silentLogger,
      slots: new RunSlots(1),
      limiter: undefined,
      deadlines: new DeadlineSweep(clock),
      maxQueueSize: 1,
      autoComplete: true,
      defaultMaxBatchSize: 4,
      identities: false,
    },
    loads: new WorkLine(1),
    sessions: new SharedSessions(backend),
    dispose: () => Promise.resolve(),
  });
  const kept = { stats: new ModelStats('m', '1'), sequences: new ModelSequences(clock) };
  await expect(plan.load('1', kept)).rejects.toThrow('far enough');
  return backend.asked;
}

describe('planLoad', () => {
  it.each([true, false])('loads a model onto the GPUs that the backend has, shared or not: %s', async (shared) => {
    const [options] = await load(new GpuBackend(), 'instance_group { kind: KIND_GPU count: 1 }', shared);
    expect(options?.gpu?.instances).toEqual({ 0: 1, 1: 1 });
  });

  it('loads onto the CPU where the backend knows of no devices', async () => {
    const asked: LoadOptions[] = [];
    const backend = {
      asked,
      load: (options: LoadOptions) => {
        asked.push(options);
        return Promise.reject(new InferError('INVALID_ARGUMENT', 'far enough'));
      },
    };
    const [options] = await load(backend, '', true);
    expect(options).toBeDefined();
    expect(options?.gpu).toBeUndefined();
  });
});
