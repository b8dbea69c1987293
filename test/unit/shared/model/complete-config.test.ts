import { describe, expect, it } from 'vitest';
import { completeModelConfig } from '../../../../shared/model/complete-config.ts';
import { parseModelConfig } from '../../../../shared/model/parse-config.ts';
import { DataType } from '../../../../shared/proto/generated/model_config_pb.ts';
import { graph, tensor } from './graphs.ts';

const BATCHED = graph(
  [tensor('x', [-1, 3, -1]), tensor('a', [-1], 'INT64')],
  [tensor('y', [-1, 10]), tensor('b', [-1, 1], 'BYTES')],
);
const FIXED = graph([tensor('x', [1, 3])], [tensor('y', [1, 10])]);

function complete(text: string, file = BATCHED) {
  return completeModelConfig(parseModelConfig(text, 'config.pbtxt'), file);
}

describe('completeModelConfig', () => {
  it('makes a whole config from a model that can batch', () => {
    const config = complete('name: "m"');
    expect(config.maxBatchSize).toBe(4);
    expect(config.schedulingChoice.case).toBe('dynamicBatching');
    expect(config.input).toMatchObject([
      { name: 'a', dataType: DataType.TYPE_INT64, dims: [1n], reshape: { shape: [] } },
      { name: 'x', dataType: DataType.TYPE_FP32, dims: [3n, -1n] },
    ]);
    expect(config.output).toMatchObject([
      { name: 'b', dataType: DataType.TYPE_STRING, dims: [1n] },
      { name: 'y', dataType: DataType.TYPE_FP32, dims: [10n] },
    ]);
    expect(config.input[1]?.reshape).toBeUndefined();
  });

  it('does not change what it is given', () => {
    const config = parseModelConfig('name: "m"', 'config.pbtxt');
    completeModelConfig(config, BATCHED);
    expect(config).toMatchObject({ maxBatchSize: 0, input: [], output: [] });
  });

  it('leaves a config with inputs and outputs as it is', () => {
    const config = complete('input { name: "x" } output { name: "y" }');
    expect(config.maxBatchSize).toBe(0);
    expect(config.schedulingChoice.case).toBeUndefined();
    expect(config.input[0]?.dims).toEqual([]);
  });

  it('fills only the side that is missing', () => {
    const config = complete('max_batch_size: 8 output { name: "y" data_type: TYPE_FP32 dims: 10 }');
    expect(config.maxBatchSize).toBe(8);
    expect(config.schedulingChoice.case).toBe('dynamicBatching');
    expect(config.input.map((input) => input.name)).toEqual(['a', 'x']);
    expect(config.output.map((output) => output.name)).toEqual(['y']);
  });

  it('keeps the batching that the config asks for', () => {
    const config = complete('dynamic_batching { max_queue_delay_microseconds: 7 }');
    expect(config.schedulingChoice.value).toMatchObject({ maxQueueDelayMicroseconds: 7n });
  });

  it('does not add a batcher for batches of one', () => {
    expect(complete('max_batch_size: 1').schedulingChoice.case).toBeUndefined();
  });

  it('serves a model of fixed shapes without batching', () => {
    const config = complete('', FIXED);
    expect(config.maxBatchSize).toBe(0);
    expect(config.schedulingChoice.case).toBeUndefined();
    expect(config.input).toMatchObject([{ dims: [1n, 3n] }]);
  });

  it('does not batch when only the outputs are fixed', () => {
    expect(complete('', graph([tensor('x', [-1, 3])], [tensor('y', [10])])).maxBatchSize).toBe(0);
  });

  it('writes a scalar as one element that is reshaped to none', () => {
    const config = complete('', graph([tensor('x', [])], [tensor('y', [])]));
    expect(config.input).toMatchObject([{ dims: [1n], reshape: { shape: [] } }]);
  });

  it('refuses max_batch_size for a model whose dimension 0 is fixed, and says what to do', () => {
    expect(() => complete('name: "m" max_batch_size: 4', FIXED)).toThrow(
      'model "m": max_batch_size is 4, but the model file cannot batch: dimension 0 of input "x" is fixed to 1; ' +
        'set max_batch_size: 0, or export the model with a dynamic first dimension',
    );
  });

  it('refuses an output that no protocol can carry, and says how to leave it out', () => {
    const odd = { ...tensor('probs', [-1]), datatype: undefined, typeName: 'sequence' };
    const file = graph([tensor('x', [-1, 3])], [tensor('y', [-1]), odd]);
    expect(() => complete('name: "m"', file)).toThrow(
      'output "probs" is of type sequence, which the protocol cannot carry; list the outputs to serve',
    );
    expect(complete('output { name: "y" data_type: TYPE_FP32 dims: 1 reshape {} }', file).input).toHaveLength(1);
  });
});
