import { describe, expect, it } from 'vitest';
import { InferError } from '../../../../shared/errors.ts';
import { modelConfigToJson } from '../../../../shared/model/config-json.ts';
import { memberNames } from '../../../../shared/model/ensemble-graph.ts';
import { prepareEnsembleConfig } from '../../../../shared/model/prepare-config.ts';
import type { ReadyModel } from '../../../../shared/model/ready-model.ts';
import type { ModelConfig } from '../../../../shared/proto/generated/model_config_pb.ts';
import { ensembleConfig, io, readyModel, step } from './ensembles.ts';

const CHAIN = [step('a', { x: 'IN' }, { y: 'MIDDLE' }), step('b', { x: 'MIDDLE' }, { y: 'OUT' })];
const HEAD = `max_batch_size: 4 ${io('input', 'IN', [4])} ${io('output', 'OUT', [4])}`;

/** A model with the input x and the output y. */
function model(
  name: string,
  maxBatchSize: number,
  x: readonly number[],
  y: readonly number[] = x,
  rest = '',
): ReadyModel {
  return readyModel(name, `max_batch_size: ${maxBatchSize} ${io('input', 'x', x)} ${io('output', 'y', y)} ${rest}`);
}

function misfit(config: ModelConfig, ...models: ReadyModel[]): string {
  try {
    prepareEnsembleConfig(config, models);
  } catch (error) {
    expect(error).toBeInstanceOf(InferError);
    return (error as InferError).message;
  }
  return '';
}

describe('members of an ensemble', () => {
  it('are each named once, with -1 as the version by policy', () => {
    const pinned = step('a', { x: 'IN' }, { y: 'Z' }).replace('-1', '3');
    expect(memberNames(ensembleConfig(HEAD, ...CHAIN, CHAIN[0]!, pinned))).toEqual([
      { model: 'a', version: '' },
      { model: 'b', version: '' },
      { model: 'a', version: '3' },
    ]);
  });

  it('fit when shapes and datatypes do, a wildcard beside a length too', () => {
    const config = ensembleConfig(HEAD, ...CHAIN);
    expect(misfit(config, model('a', 8, [4]), model('b', 4, [-1]))).toBe('');
  });

  it.each<[string, ReadyModel, ReadyModel, string]>([
    [
      'a smaller max_batch_size',
      model('a', 2, [4]),
      model('b', 8, [4]),
      'model "ens": step 1, model "a": max_batch_size is 2, and the ensemble\'s is 4; set the ensemble\'s to 2 or less',
    ],
    [
      'other dims along an edge',
      model('a', 8, [4], [5]),
      model('b', 8, [4]),
      'model "ens": step 2, model "b", input "x": expected shape [-1,4], but tensor "MIDDLE" is [-1,5] from step 1, model "a", output "y"',
    ],
    [
      'other dims than the ensemble promises',
      model('a', 8, [4]),
      model('b', 8, [4], [2, 2]),
      'model "ens": output "OUT" of the ensemble: expected shape [-1,4], but tensor "OUT" is [-1,2,2] from step 2, model "b", output "y"',
    ],
    [
      'another datatype',
      readyModel('a', `max_batch_size: 8 ${io('input', 'x', [4])} ${io('output', 'y', [4], 'data_type: TYPE_INT64')}`),
      model('b', 8, [4]),
      'model "ens": step 2, model "b", input "x": expected datatype FP32, but tensor "MIDDLE" is INT64 from step 1, model "a", output "y"',
    ],
    [
      'an unknown input',
      readyModel(
        'a',
        `max_batch_size: 8 ${io('input', 'xx', [4], 'optional: true data_type: TYPE_FP32')} ${io('output', 'y', [4])}`,
      ),
      model('b', 8, [4]),
      'model "ens": step 1, model "a": the model has no input "x", its inputs are xx; did you mean "xx"?',
    ],
    [
      'an unknown output',
      readyModel('a', `max_batch_size: 8 ${io('input', 'x', [4])} ${io('output', 'logits', [4])}`),
      model('b', 8, [4]),
      'model "ens": step 1, model "a": the model has no output "y", its outputs are logits',
    ],
    [
      'a required input that is not mapped',
      model('a', 8, [4], [4], io('input', 'mask', [4])),
      model('b', 8, [4]),
      'model "ens": step 1, model "a", input "mask": the model needs it, and input_map does not have it',
    ],
  ])('are refused for %s', (_, a, b, text) => {
    expect(misfit(ensembleConfig(HEAD, ...CHAIN), a, b)).toBe(text);
  });

  it('may leave out an optional input, and a model may have outputs that nobody takes', () => {
    const a = model(
      'a',
      8,
      [4],
      [4],
      `${io('input', 'mask', [4], 'optional: true data_type: TYPE_FP32')} ${io('output', 'more', [4])}`,
    );
    expect(misfit(ensembleConfig(HEAD, ...CHAIN), a, model('b', 8, [4]))).toBe('');
  });

  it('are refused when they need what is optional in the ensemble', () => {
    const head = `max_batch_size: 4 ${io('input', 'IN', [4], 'optional: true data_type: TYPE_FP32')} ${io('output', 'OUT', [4])}`;
    expect(misfit(ensembleConfig(head, ...CHAIN), model('a', 8, [4]), model('b', 8, [4]))).toBe(
      'model "ens": step 1, model "a", input "x": the model needs tensor "IN", which is optional in the ensemble',
    );
  });

  it('without a batch dimension stand beside batching ones where the axes fit (G04)', () => {
    const config = ensembleConfig(HEAD, ...CHAIN);
    expect(misfit(config, model('a', 0, [-1, 4]), model('b', 8, [4]))).toBe(''); // all rows at once
    expect(misfit(config, model('a', 0, [4]), model('b', 8, [4]))).toBe(''); // one row
    expect(misfit(config, model('a', 8, [4]), model('b', 0, [-1, 4]))).toBe('');
    expect(misfit(config, model('a', 0, [3, 4]), model('b', 8, [4]))).toBe(''); // three rows only
    expect(misfit(config, model('a', 0, [4, -1, 3]), model('b', 8, [4]))).toContain('step 1, model "a", input "x"');
  });
});

describe('an ensemble that lists no inputs or outputs', () => {
  const prepare = (head: string, ...models: ReadyModel[]) => {
    const json = modelConfigToJson(prepareEnsembleConfig(ensembleConfig(head, ...CHAIN), models));
    return json as { input: unknown[]; output: unknown[]; [key: string]: unknown };
  };

  it('gets them from its members', () => {
    const { input, output } = prepare('max_batch_size: 4', model('a', 8, [-1]), model('b', 8, [4], [2]));
    expect(input).toMatchObject([{ name: 'IN', data_type: 'TYPE_FP32', dims: [-1], optional: false }]);
    expect(output).toMatchObject([{ name: 'OUT', data_type: 'TYPE_FP32', dims: [2] }]);
  });

  it('gets the side that is missing only', () => {
    const { input, output } = prepare(
      `max_batch_size: 4 ${io('input', 'IN', [4])}`,
      model('a', 8, [-1]),
      model('b', 8, [4]),
    );
    expect(input).toMatchObject([{ dims: [4] }]);
    expect(output).toMatchObject([{ name: 'OUT', dims: [4] }]);
  });

  it('shows the batch dimension of its members when it has none itself', () => {
    expect(prepare('', model('a', 8, [4]), model('b', 0, [-1, 4])).input).toMatchObject([{ dims: [-1, 4] }]);
  });

  it('takes the length that one of several readers wants', () => {
    const steps = [step('a', { x: 'IN' }, { y: 'A' }), step('b', { x: 'IN' }, { y: 'B' })];
    const config = ensembleConfig('max_batch_size: 4', ...steps);
    const prepared = prepareEnsembleConfig(config, [model('a', 8, [-1, 3]), model('b', 8, [7, -1])]);
    expect(prepared.input.map(({ dims }) => dims)).toEqual([[7n, 3n]]);
    expect(prepared.output.map(({ name }) => name)).toEqual(['A', 'B']);
  });

  it('is refused where completing is switched off', () => {
    const config = ensembleConfig('max_batch_size: 4', ...CHAIN);
    expect(() => prepareEnsembleConfig(config, [model('a', 8, [4]), model('b', 8, [4])], false)).toThrow(
      'the config lists no input, and auto-completion is switched off',
    );
  });

  it('looks in GET config as in Triton', () => {
    const config = prepareEnsembleConfig(ensembleConfig(HEAD, ...CHAIN), [model('a', 8, [4]), model('b', 8, [4])]);
    expect(modelConfigToJson(config)).toMatchObject({
      name: 'ens',
      platform: 'ensemble',
      backend: '',
      version_policy: { latest: { num_versions: 1 } },
      instance_group: [],
      ensemble_scheduling: {
        step: [{ model_name: 'a', model_version: -1, input_map: { x: 'IN' }, output_map: { y: 'MIDDLE' } }, {}],
      },
    });
    expect(modelConfigToJson(config)).not.toHaveProperty('optimization');
  });
});
