import { describe, expect, it } from 'vitest';
import { InferError } from '../../../../shared/errors.ts';
import { parseModelConfig } from '../../../../shared/model/parse-config.ts';
import { assertLoadable, prepareModelConfig } from '../../../../shared/model/prepare-config.ts';
import { resolveBackend } from '../../../../shared/model/resolve-backend.ts';
import { graph, tensor } from './graphs.ts';

const FILE = graph([tensor('x', [-1, 3])], [tensor('y', [-1, 10])]);

function resolve(text: string) {
  return resolveBackend(parseModelConfig(text, 'config.pbtxt'), 'm', ['model.onnx']);
}

describe('prepareModelConfig', () => {
  it.each(['', 'backend: "onnxruntime"'])('serves a model whose config is %j', (text) => {
    expect(prepareModelConfig(resolve(text), FILE)).toMatchObject({
      name: 'm',
      backend: 'onnxruntime',
      platform: 'onnxruntime_onnx',
      maxBatchSize: 4,
      input: [{ name: 'x', dims: [3n] }],
      output: [{ name: 'y', dims: [10n] }],
      schedulingChoice: { case: 'dynamicBatching', value: { preferredBatchSize: [4] } },
      instanceGroup: [{ count: 2 }],
    });
  });

  it('names the model and its one problem', () => {
    expect(() =>
      prepareModelConfig(resolve('max_batch_size: 2 input { name: "x" data_type: TYPE_FP32 dims: 4 }'), FILE),
    ).toThrow(
      'model "m": input "x": dims [ 4 ] with max_batch_size 2 mean shape [ -1, 4 ], the model file has [ -1, 3 ]; set dims: [ 3 ]',
    );
  });

  it('numbers several problems', () => {
    const text = 'max_batch_size: 2 input { name: "x" data_type: TYPE_INT8 dims: 4 }';
    expect(() => prepareModelConfig(resolve(text), FILE)).toThrow(
      /^model "m": 2 problems: 1\) input "x".*; 2\) input "x"/,
    );
  });
});

describe('assertLoadable', () => {
  it('lets a config pass that only has to be completed', () => {
    expect(() => {
      assertLoadable(resolve('dynamic_batching { preferred_batch_size: 4 }'));
    }).not.toThrow();
  });

  it('refuses what no model file can make right', () => {
    expect(() => {
      assertLoadable(resolve('instance_group { kind: KIND_GPU }'));
    }).toThrow(
      new InferError(
        'INVALID_ARGUMENT',
        'model "m": instance_group "m_0": kind: KIND_GPU is not supported: models run on the CPU here, as the CUDA provider is not installed: run millrace gpu install; set kind: KIND_CPU, or leave kind and gpus out',
      ),
    );
  });
});
