import { describe, expect, it } from 'vitest';
import { parseModelConfig } from '../../../../shared/model/parse-config.ts';
import { verifyModelConfig } from '../../../../shared/model/verify-config.ts';
import { graph, tensor } from './graphs.ts';

const FILE = graph(
  [tensor('image', [-1, 3, -1, -1]), tensor('scale', [-1], 'INT64')],
  [tensor('scores', [-1, 10]), tensor('label', [-1], 'BYTES')],
);
const SCALE = 'input { name: "scale" data_type: TYPE_INT64 dims: 1 reshape { } }';
const IMAGE = 'input { name: "image" data_type: TYPE_FP32 dims: [ 3, -1, -1 ] }';
const SCORES = 'output { name: "scores" data_type: TYPE_FP32 dims: 10 }';

function problemsOf(text: string, file = FILE): string[] {
  return verifyModelConfig(parseModelConfig(text, 'config.pbtxt'), file);
}

describe('verifyModelConfig', () => {
  it('accepts a config that says what the model file says', () => {
    const label = 'output { name: "label" data_type: TYPE_STRING dims: 1 reshape { shape: [ ] } }';
    expect(problemsOf(`max_batch_size: 8 ${IMAGE} ${SCALE} ${SCORES} ${label}`)).toEqual([]);
  });

  it('accepts inputs in another order and a part of the outputs', () => {
    expect(problemsOf(`max_batch_size: 8 ${SCALE} ${IMAGE} ${SCORES}`)).toEqual([]);
  });

  it('lets the config fix a length that an input leaves open', () => {
    const fixed = 'input { name: "image" data_type: TYPE_FP32 dims: [ 3, 224, 224 ] }';
    expect(problemsOf(`max_batch_size: 8 ${SCALE} ${fixed} ${SCORES}`)).toEqual([]);
  });

  it('does not let it fix a length that an output leaves open', () => {
    const file = graph([tensor('x', [-1, 3])], [tensor('y', [-1, -1])]);
    const text = 'max_batch_size: 1 input { name: "x" data_type: TYPE_FP32 dims: 3 } ';
    expect(problemsOf(`${text} output { name: "y" data_type: TYPE_FP32 dims: 5 }`, file)).toEqual([
      'output "y": dims [ 5 ] with max_batch_size 1 mean shape [ -1, 5 ], the model file has [ -1, -1 ]; ' +
        'set dims: [ -1 ]',
    ]);
  });

  it('says that the batch dimension is fixed when dims include it', () => {
    const file = graph([tensor('image', [1, 3, 300, 300])], [tensor('y', [1, 10])]);
    const image = 'input { name: "image" data_type: TYPE_FP32 dims: [ 1, 3, 300, 300 ] }';
    const y = 'output { name: "y" data_type: TYPE_FP32 dims: [ 1, 10 ] }';
    expect(problemsOf(`max_batch_size: 1 ${image} ${y}`, file)[0]).toBe(
      'input "image": dims [ 1, 3, 300, 300 ] with max_batch_size 1 mean shape [ -1, 1, 3, 300, 300 ], ' +
        'the model file has [ 1, 3, 300, 300 ]; dimension 0 of the model is fixed to 1, so it cannot batch: ' +
        'set max_batch_size: 0 and dims: [ 1, 3, 300, 300 ], or export the model with a dynamic first dimension',
    );
    expect(problemsOf(`max_batch_size: 0 ${image} ${y}`, file)).toEqual([]);
  });

  it('names dimension 0 of a model that cannot batch', () => {
    const file = graph([tensor('x', [1, 3])], []);
    const problems = problemsOf('max_batch_size: 4 input { name: "x" data_type: TYPE_FP32 dims: 3 }', file);
    expect(problems).toEqual([expect.stringContaining('dimension 0 of the model is fixed to 1, so it cannot batch')]);
  });

  it('says that the batch dimension was written twice', () => {
    const image = 'input { name: "image" data_type: TYPE_FP32 dims: [ -1, 3, -1, -1 ] }';
    expect(problemsOf(`max_batch_size: 8 ${SCALE} ${image} ${SCORES}`)).toEqual([
      'input "image": dims [ -1, 3, -1, -1 ] with max_batch_size 8 mean shape [ -1, -1, 3, -1, -1 ], ' +
        'the model file has [ -1, 3, -1, -1 ]; the batch dimension does not belong in the config: set dims: [ 3, -1, -1 ]',
    ]);
  });

  it('says aloud that no max_batch_size means 0', () => {
    const file = graph([tensor('x', [-1, 3])], []);
    expect(problemsOf('input { name: "x" data_type: TYPE_FP32 dims: 3 }', file)).toEqual([
      'input "x": dims [ 3 ] with max_batch_size 0 (or none) mean shape [ 3 ], the model file has [ -1, 3 ]; ' +
        'set max_batch_size to 1 or more, or dims: [ -1, 3 ]',
    ]);
  });

  it('shows how a scalar is written', () => {
    const scale = 'input { name: "scale" data_type: TYPE_INT64 dims: 1 }';
    expect(problemsOf(`max_batch_size: 8 ${scale} ${IMAGE} ${SCORES}`)).toEqual([
      expect.stringContaining('set dims: [ 1 ] reshape: { shape: [ ] }'),
    ]);
  });

  it('compares the reshape where there is one', () => {
    const file = graph([tensor('x', [-1, 2, 2])], []);
    const x = (shape: string) => `input { name: "x" data_type: TYPE_FP32 dims: 4 reshape { shape: ${shape} } }`;
    expect(problemsOf(`max_batch_size: 2 ${x('[ 2, 2 ]')}`, file)).toEqual([]);
    expect(problemsOf(`max_batch_size: 2 ${x('[ 1, 4 ]')}`, file)).toEqual([
      'input "x": reshape [ 1, 4 ] with max_batch_size 2 mean shape [ -1, 1, 4 ], the model file has [ -1, 2, 2 ]; ' +
        'set reshape: { shape: [ 2, 2 ] }',
    ]);
  });

  it('names the right type', () => {
    const scores = 'output { name: "scores" data_type: TYPE_FP16 dims: 10 }';
    const label = 'output { name: "label" data_type: TYPE_INT8 dims: 1 reshape { } }';
    expect(problemsOf(`max_batch_size: 8 ${IMAGE} ${SCALE} ${scores} ${label}`)).toEqual([
      'output "scores": the config has data_type TYPE_FP16, the model file has TYPE_FP32; set data_type: TYPE_FP32',
      'output "label": the config has data_type TYPE_INT8, the model file has TYPE_STRING; set data_type: TYPE_STRING',
    ]);
  });

  it('writes down the input that is missing', () => {
    expect(problemsOf(`max_batch_size: 8 ${SCALE} ${SCORES}`)).toEqual([
      'input "image" of the model file is missing in the config; ' +
        'add input { name: "image" data_type: TYPE_FP32 dims: [ 3, -1, -1 ] }',
    ]);
  });

  it('takes an input under a misspelt name for that input, once', () => {
    const images = 'input { name: "images" data_type: TYPE_FP32 dims: [ 3, -1, -1 ] }';
    expect(problemsOf(`max_batch_size: 8 ${images} ${SCALE} ${SCORES}`)).toEqual([
      'input "images" is not in the model file, whose inputs are image, scale; set name: "image"',
    ]);
  });

  it('says of a tensor that resembles none to leave it out', () => {
    const other = 'output { name: "logits" data_type: TYPE_FP32 dims: 10 }';
    expect(problemsOf(`max_batch_size: 8 ${IMAGE} ${SCALE} ${SCORES} ${other}`)).toEqual([
      'output "logits" is not in the model file, whose outputs are scores, label; remove the output',
    ]);
  });

  it('refuses an output that the protocol cannot carry', () => {
    const file = graph([], [{ ...tensor('y', [-1]), datatype: undefined, typeName: 'COMPLEX64' }]);
    expect(problemsOf('output { name: "y" data_type: TYPE_FP32 dims: [ -1 ] }', file)).toEqual([
      'output "y" is of type COMPLEX64 in the model file, which the protocol cannot carry',
    ]);
  });
});
