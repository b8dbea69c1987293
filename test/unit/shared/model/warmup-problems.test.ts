import { describe, expect, it } from 'vitest';
import { parseModelConfig } from '../../../../shared/model/parse-config.ts';
import { findWarmupProblems } from '../../../../shared/model/warmup-problems.ts';

const INPUTS = `
input { name: "x" data_type: TYPE_FP32 dims: [ -1, 4 ] }
input { name: "text" data_type: TYPE_STRING dims: [ 1 ] optional: true }
input { name: "label" data_type: TYPE_INT32 dims: [ 1 ] reshape { shape: [ ] } optional: true }`;

const X = 'inputs { key: "x" value { data_type: TYPE_FP32 dims: [ 2, 4 ] zero_data: true } }';

/** The problems of one entry called "w", without its name. */
function problemsOf(entry: string, maxBatchSize = 8): string[] {
  const text = `max_batch_size: ${maxBatchSize} ${INPUTS} model_warmup { name: "w" ${entry} }`;
  return findWarmupProblems(parseModelConfig(text, 'config.pbtxt')).map((problem) => {
    expect(problem).toMatch(/^model_warmup "w": /);
    return problem.slice('model_warmup "w": '.length);
  });
}

const input = (name: string, rest: string) => `${X} inputs { key: "${name}" value { ${rest} } }`;

describe('findWarmupProblems', () => {
  it.each([
    X,
    `batch_size: 8 count: 3 ${X}`,
    'inputs { key: "x" value { data_type: TYPE_FP32 dims: [ 7, 4 ] random_data: true } }',
    'inputs { key: "x" value { data_type: TYPE_FP32 dims: [ 1, 4 ] input_data_file: "x/1.bin" } }',
    input('text', 'data_type: TYPE_STRING dims: [ 1 ] zero_data: true'),
    input('label', 'data_type: TYPE_INT32 dims: [ 1 ] zero_data: true'),
    input('label', 'data_type: TYPE_INT32 zero_data: true'),
  ])('takes %s', (entry) => {
    expect(problemsOf(entry)).toEqual([]);
  });

  it.each([
    ['a wrong number of dims', 'dims: [ 4 ] zero_data: true', 'expected dims [ -1, 4 ] with a number for each'],
    ['a wrong dim', 'dims: [ 2, 5 ] zero_data: true', 'got [ 2, 5 ]'],
    ['an open dim', 'dims: [ -1, 4 ] zero_data: true', 'got [ -1, 4 ]'],
    ['an empty dim', 'dims: [ 0, 4 ] zero_data: true', 'got [ 0, 4 ]'],
    ['more than fits', 'dims: [ 100000000, 4 ] zero_data: true', 'more than 1073741824 bytes'],
    ['no data', 'dims: [ 2, 4 ]', 'expected one of zero_data, random_data, input_data_file'],
    ['data that is switched off', 'dims: [ 2, 4 ] zero_data: false', 'zero_data: expected true, got false'],
    ['random data switched off', 'dims: [ 2, 4 ] random_data: false', 'random_data: expected true, got false'],
    ['a file outside', 'dims: [ 2, 4 ] input_data_file: "../x"', 'in the model\'s folder "warmup", got "../x"'],
    ['an absolute file', 'dims: [ 2, 4 ] input_data_file: "/x"', 'got "/x"'],
    ['no file name', 'dims: [ 2, 4 ] input_data_file: ""', 'got ""'],
  ])('names the entry and the input for %s', (_, rest, problem) => {
    const problems = problemsOf(`inputs { key: "x" value { data_type: TYPE_FP32 ${rest} } }`);
    expect(problems).toEqual([expect.stringContaining(problem)]);
    expect(problems[0]).toMatch(/^input "x": /);
  });

  it.each([
    ['', 'input "x" is missing'],
    [input('y', 'data_type: TYPE_FP32'), 'input "y" is not an input of the model; it has x, text, label'],
    [
      'inputs { key: "x" value { data_type: TYPE_FP64 dims: [ 2, 4 ] zero_data: true } }',
      'input "x": expected data_type TYPE_FP32, got TYPE_FP64',
    ],
    [
      'inputs { key: "x" value { dims: [ 2, 4 ] zero_data: true } }',
      'input "x": expected data_type TYPE_FP32, got TYPE_INVALID',
    ],
    [
      input('text', 'data_type: TYPE_STRING dims: [ 1 ] random_data: true'),
      'input "text": random_data is not for TYPE_STRING: take zero_data or input_data_file',
    ],
    [`batch_size: 9 ${X}`, 'batch_size: expected up to max_batch_size (8), got 9'],
    [`count: 1000000 ${X}`, 'count: expected up to 100000, got 1000000'],
  ])('refuses %s', (entry, problem) => {
    expect(problemsOf(entry)).toEqual([problem]);
  });

  it('refuses a batch for a model that does not batch', () => {
    expect(problemsOf(`batch_size: 1 ${X}`, 0)).toEqual([]);
    expect(problemsOf(`batch_size: 2 ${X}`, 0)).toEqual([
      'batch_size: expected 1, as the model does not batch (max_batch_size 0), got 2',
    ]);
  });

  it('calls an entry without a name by its place', () => {
    const text = `${INPUTS} model_warmup [ { name: "w" ${X} }, { } ]`;
    expect(findWarmupProblems(parseModelConfig(text, 'config.pbtxt'))).toEqual([
      'model_warmup 1: input "x" is missing',
    ]);
  });

  it('knows the inputs that a sequence model gets from the server', () => {
    const text = `max_batch_size: 8
input { name: "x" data_type: TYPE_FP32 dims: [ -1, 4 ] }
sequence_batching {
  control_input { name: "START" control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } }
  state { input_name: "in" output_name: "out" data_type: TYPE_FP32 dims: [ 3 ] }
}
model_warmup { name: "w" ${X}
  inputs { key: "START" value { data_type: TYPE_INT32 dims: [ 1 ] zero_data: true } }
  inputs { key: "in" value { data_type: TYPE_FP32 dims: [ 2 ] zero_data: true } }
}`;
    expect(findWarmupProblems(parseModelConfig(text, 'config.pbtxt'))).toEqual([
      'model_warmup "w": input "in": expected dims [ 3 ] with a number for each dimension, got [ 2 ]',
    ]);
  });
});
