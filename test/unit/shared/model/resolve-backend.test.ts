import { describe, expect, it } from 'vitest';
import { InferError } from '../../../../shared/errors.ts';
import { parseModelConfig } from '../../../../shared/model/parse-config.ts';
import { resolveBackend } from '../../../../shared/model/resolve-backend.ts';

function resolve(text: string, files: readonly string[] = ['model.onnx'], name = 'm') {
  return resolveBackend(parseModelConfig(text, 'config.pbtxt'), name, files);
}

const ONNX = {
  name: 'm',
  backend: 'onnxruntime',
  platform: 'onnxruntime_onnx',
  defaultModelFilename: 'model.onnx',
};

describe('resolveBackend', () => {
  it.each(['', 'name: "m"', 'backend: "onnxruntime"', 'platform: "onnxruntime_onnx"'])(
    'takes %j with a model.onnx for ONNX Runtime',
    (text) => {
      expect(resolve(text)).toMatchObject(ONNX);
    },
  );

  it('goes by the model file that the config names', () => {
    expect(resolve('default_model_filename: "best.onnx"', ['best.onnx'])).toMatchObject({
      ...ONNX,
      defaultModelFilename: 'best.onnx',
    });
  });

  it('goes by the ending of the model name when the files do not tell', () => {
    expect(resolve('', ['net.bin'], 'm.onnxruntime')).toMatchObject({ ...ONNX, name: 'm.onnxruntime' });
  });

  it('gives an ensemble its name and neither backend nor file', () => {
    expect(resolve('platform: "ensemble" ensemble_scheduling { }', [])).toMatchObject({
      name: 'm',
      platform: 'ensemble',
      backend: '',
      defaultModelFilename: '',
    });
  });

  it.each([
    ['name: "other"', [], 'INVALID_ARGUMENT', 'model "m": the config has name "other"; the name must be that of'],
    [
      'platform: "tensorrt_plan"',
      [],
      'UNIMPLEMENTED',
      'backend "tensorrt" is not supported; supported is "onnxruntime"',
    ],
    ['platform: "onnx"', [], 'UNIMPLEMENTED', 'backend "onnx" is not supported'],
    ['backend: "python"', [], 'UNIMPLEMENTED', 'backend "python" is not supported'],
    ['', ['model.plan'], 'UNIMPLEMENTED', 'backend "tensorrt" is not supported'],
    ['', ['model.savedmodel'], 'UNIMPLEMENTED', 'backend "tensorflow" is not supported'],
    ['', ['model.py'], 'UNIMPLEMENTED', 'backend "python" is not supported'],
    ['platform: "ensemble"', [], 'INVALID_ARGUMENT', 'needs ensemble_scheduling with the steps'],
    ['ensemble_scheduling { }', [], 'INVALID_ARGUMENT', 'goes with platform "ensemble", the config has none'],
    [
      'platform: "onnxruntime_onnx" ensemble_scheduling { }',
      ['model.onnx'],
      'INVALID_ARGUMENT',
      'goes with platform "ensemble", the config has "onnxruntime_onnx"',
    ],
    [
      'platform: "ensemble" backend: "onnxruntime" ensemble_scheduling { }',
      [],
      'INVALID_ARGUMENT',
      'goes without a backend, the config has "onnxruntime"',
    ],
    [
      'backend: "onnxruntime" platform: "tensorrt_plan"',
      [],
      'INVALID_ARGUMENT',
      'goes with platform "onnxruntime_onnx"',
    ],
    ['', ['Model.onnx', 'notes'], 'INVALID_ARGUMENT', 'has no model.onnx; it holds Model.onnx, notes'],
    ['', [], 'INVALID_ARGUMENT', 'has no model.onnx; it is empty'],
  ])('refuses %j with files %j', (text, files, code, message) => {
    expect(() => resolve(text, files)).toThrow(
      expect.toSatisfy(
        (error) => error instanceof InferError && error.code === code && error.message.includes(message),
      ),
    );
  });
});
