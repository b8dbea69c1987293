import { describe, expect, it } from 'vitest';
import { InferError } from '../../../../../shared/errors.ts';
import { createReadyModel } from '../../../../../shared/model/create-ready-model.ts';
import { parseModelConfig } from '../../../../../shared/model/parse-config.ts';
import { prepareModelConfig } from '../../../../../shared/model/prepare-config.ts';
import { createModelPlan } from '../../../../../worker/engine/batch/model-plan.ts';
import type { LoadedModel, ModelInstance } from '../../../../../worker/engine/instance/instance.ts';
import { warmSizes } from '../../../../../worker/engine/repository/warm-sizes.ts';
import { silentLogger } from '../../../../../shared/runtime/logger.ts';
import { FakeClock } from '../support/fake-clock.ts';

const X = { name: 'x', datatype: 'FP32' as const, shape: [-1, 4], typeName: 'float', symbols: [] };
const Y = { ...X, name: 'y' };
const NO_MEMORY = new InferError('RESOURCE_EXHAUSTED', 'no memory');

/** Runs of more rows than `fitting` find no memory; each takes `runMs`. */
async function warm(
  text: string,
  { fitting = Infinity, instances = 1, runMs = 0, gpu, refuses = false, merges = true }: Partial<Options> = {},
) {
  const clock = new FakeClock();
  const rows: (number | undefined)[] = [];
  const warned: object[] = [];
  const instance: ModelInstance = {
    run([x]) {
      rows.push(x?.shape[0]);
      clock.advance(runMs);
      const failure = refuses ? new InferError('INVALID_ARGUMENT', 'no') : NO_MEMORY;
      const fails = refuses || (x?.shape[0] ?? 0) > fitting;
      return { result: fails ? Promise.reject(failure) : Promise.resolve([]), stop: () => {} };
    },
    close: () => Promise.resolve(),
  };
  const loaded: LoadedModel = {
    inputs: [X],
    outputs: [Y],
    createInstance: () => Promise.resolve(instance),
    close: () => Promise.resolve(),
    ...(gpu && { gpu: { fewSizes: gpu === 'few', memory: () => [{ gpu: 0, usedBytes: 1, freeBytes: 2 }] } }),
  };
  const config = prepareModelConfig(parseModelConfig(`name: "m" ${text}`, 'config.pbtxt'), loaded);
  const files = { names: [], read: () => Promise.reject(new Error('there is none')) };
  const ready = createReadyModel({
    config,
    version: '1',
    versions: ['1'],
    labels: new Map(),
    files,
    identity: undefined,
  });
  const logger = { ...silentLogger, warn: (fields: object) => warned.push(fields) };
  const all = Array.from({ length: instances }, () => instance);
  const result = await warmSizes({
    ready,
    plan: createModelPlan(ready),
    merges,
    loaded,
    instances: all,
    clock,
    logger,
  });
  return { ...result, rows, warned };
}

interface Options {
  readonly fitting: number;
  readonly instances: number;
  readonly runMs: number;
  readonly gpu: 'few' | 'any';
  readonly refuses: boolean;
  readonly merges: boolean;
}

const MAX = 'max_batch_size: 12 ';
const sizes = (value: string) => `parameters { key: "batch_sizes" value { string_value: "${value}" } }`;

describe('the sizes of runs', () => {
  it('are any on a CPU, and nothing is run', async () => {
    expect(await warm(MAX)).toMatchObject({ sizes: undefined, maxRows: 12, rows: [] });
    expect(await warm(`${MAX}${sizes('any')}`)).toMatchObject({ sizes: undefined, rows: [] });
  });

  it('are any for rows that move with their company', async () => {
    expect(await warm(`${MAX}${sizes('powers')}`, { merges: false })).toMatchObject({ sizes: undefined, rows: [] });
  });

  it('are run at load on every instance where the config gives some', async () => {
    const powers = await warm(`${MAX}${sizes('powers')}`, { instances: 2 });
    expect(powers).toMatchObject({ sizes: [1, 2, 4, 8, 12], maxRows: 12 });
    expect(powers.rows).toEqual([1, 2, 4, 8, 12, 1, 2, 4, 8, 12]);
    expect(await warm(`${MAX}${sizes('3,6')}`)).toMatchObject({ sizes: [3, 6, 12], rows: [3, 6, 12] });
  });

  it('are powers of two on a GPU where each of them costs a search, unless the config says any', async () => {
    expect(await warm(MAX, { gpu: 'few' })).toMatchObject({ sizes: [1, 2, 4, 8, 12], rows: [1, 2, 4, 8, 12] });
    expect(await warm(`${MAX}${sizes('any')}`, { gpu: 'few' })).toMatchObject({ sizes: undefined });
  });

  it('end where there is no memory, aloud', async () => {
    const some = await warm(MAX, { gpu: 'few', fitting: 5 });
    expect(some).toMatchObject({ sizes: [1, 2, 4], maxRows: 4, warned: [{ model: 'm', version: '1', maxRows: 4 }] });
    expect(await warm(MAX, { gpu: 'any', fitting: 8 })).toMatchObject({ sizes: undefined, maxRows: 8 });
    await expect(warm(MAX, { gpu: 'any', fitting: 0 })).rejects.toThrow('no memory');
  });

  it('are not limited by a model that takes no made-up input, nor by a slow one', async () => {
    expect(await warm(MAX, { gpu: 'few', refuses: true })).toMatchObject({ sizes: [1, 2, 4, 8, 12], maxRows: 12 });
    expect(await warm(MAX, { gpu: 'any', runMs: 6000 })).toMatchObject({ maxRows: 12, rows: [1, 2] });
  });
});
