import { expect, it } from 'vitest';
import type { ModelCatalog } from '../../../../shared/infer/ports.ts';
import type { GpuReading } from '../../../../shared/runtime/gpu-readings.ts';
import { gpusInUse } from '../../../../worker/consumer/gpus-in-use.ts';
import { readyModel } from '../../shared/model/ensembles.ts';

const reading = (index: number, uuid: string): GpuReading => ({
  index,
  uuid,
  name: `card ${index}`,
  utilization: 0.5,
  usedBytes: 1,
  totalBytes: 2,
  celsius: 40,
  watts: 50,
});
const READINGS = [reading(1, 'GPU-bb'), reading(0, 'GPU-aa')];

type Catalog = Pick<ModelCatalog, 'list' | 'resolve'>;

const models = (...groups: string[]): Catalog => {
  const ready = groups.map((group, index) => readyModel(`m${index}`, group));
  return {
    list: () => [
      ...ready.map(({ name, version }) => ({ name, version, state: 'READY' as const, reason: '' })),
      { name: 'broken', state: 'UNAVAILABLE', reason: 'x' },
    ],
    resolve: (name) => ready.find((model) => model.name === name)!,
  };
};
const ON_BOTH = 'instance_group { kind: KIND_GPU gpus: [ 0, 1 ] count: 1 }';
const names = (catalog: Catalog, visible?: string) =>
  gpusInUse(catalog, READINGS, visible).map(({ index, uuid }) => [index, uuid]);

it('names those that loaded models run on, each once', () => {
  expect(gpusInUse(models('instance_group { kind: KIND_CPU count: 1 }'), READINGS, undefined)).toEqual([]);
  const first = models('instance_group { kind: KIND_GPU gpus: [ 0 ] count: 2 }');
  expect(gpusInUse(first, READINGS, undefined)).toEqual([
    { index: 0, uuid: 'GPU-aa', name: 'card 0', totalBytes: 2, usedBytes: 1, utilization: 0.5 },
  ]);
  expect(names(models(ON_BOTH, ON_BOTH))).toEqual([
    [0, 'GPU-aa'],
    [1, 'GPU-bb'],
  ]);
});

it('counts as models do, in what CUDA_VISIBLE_DEVICES lists', () => {
  expect(names(models(ON_BOTH), '1,0')).toEqual([
    [0, 'GPU-bb'],
    [1, 'GPU-aa'],
  ]);
  expect(names(models(ON_BOTH), 'GPU-b')).toEqual([
    [0, 'GPU-bb'],
    [1, undefined],
  ]);
});
