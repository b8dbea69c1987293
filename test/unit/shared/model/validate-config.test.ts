import { describe, expect, it } from 'vitest';
import { normaliseModelConfig } from '../../../../shared/model/normalise-config.ts';
import { parseModelConfig } from '../../../../shared/model/parse-config.ts';
import { validateBeforeLoad, validateModelConfig } from '../../../../shared/model/validate-config.ts';

function problemsOf(text: string): string[] {
  return validateModelConfig(normaliseModelConfig(parseModelConfig(`name: "m" ${text}`, 'config.pbtxt')));
}

function input(fields: string): string {
  return `input { name: "x" data_type: TYPE_FP32 ${fields} }`;
}

describe('validateModelConfig', () => {
  it.each([
    '',
    'max_batch_size: 8 dynamic_batching { }',
    'max_batch_size: 8 dynamic_batching { preferred_batch_size: [ 4, 8 ] max_queue_delay_microseconds: 100 }',
    'max_batch_size: 8 dynamic_batching { default_queue_policy { timeout_action: REJECT } }',
    'dynamic_batching { default_queue_policy { timeout_action: DELAY default_timeout_microseconds: 5 max_queue_size: 3 } }',
    'dynamic_batching { priority_levels: 3 default_priority_level: 2 priority_queue_policy { key: 3 value { } } }',
    'dynamic_batching { preserve_ordering: true priority_levels: 1 default_priority_level: 1 }',
    'dynamic_batching { preserve_ordering: true default_queue_policy { timeout_action: DELAY } }',
    'dynamic_batching { preserve_ordering: true default_queue_policy { default_timeout_microseconds: 5 } }',
    input('dims: [ 3, -1 ]'),
    input('dims: [ ]'),
    input('dims: [ 1 ] reshape { }'),
    input('dims: [ 2, 6 ] reshape { shape: [ 3, 4 ] }'),
    input('dims: [ 2, -1, 6 ] reshape { shape: [ 1, 2, -1, 3, 2 ] }'),
    input('dims: [ 3, 224, 224 ] format: FORMAT_NCHW'),
    input('dims: [ 3 ] optional: true'),
    'output { name: "y" data_type: TYPE_FP32 dims: 3 label_filename: "labels.txt" }',
    'version_policy { all { } }',
    'version_policy { specific { versions: [ 1, 7 ] } }',
    'instance_group { count: 4 kind: KIND_CPU }',
    'instance_group { kind: KIND_AUTO rate_limiter { priority: 1 } }',
    'default_model_filename: "sub/model..v2.onnx"',
    'parameters { key: "my_own" value { string_value: "anything" } }',
    'optimization { graph { level: -1 } cuda { } execution_accelerators { } input_pinned_memory { enable: false } }',
    'model_transaction_policy { decoupled: false } response_cache { enable: false }',
    'cc_model_filenames { key: "7.5" value: "model_75.onnx" }',
  ])('finds nothing wrong with %j', (text) => {
    expect(problemsOf(text)).toEqual([]);
  });

  it.each([
    ['max_batch_size: -1', 'max_batch_size: expected 0 or more, got -1'],
    ['input { data_type: TYPE_FP32 dims: 1 }', 'input 0: name is missing'],
    ['input { name: "x" dims: 1 }', 'input "x": data_type is missing'],
    [
      'input { name: "x" dims: 1 data_type: 99 }',
      'input[0].data_type: 99 has no meaning; known are TYPE_INVALID, TYPE_BOOL,',
    ],
    ['instance_group { kind: 9 }', 'instance_group[0].kind: 9 has no meaning; known are KIND_AUTO, KIND_GPU'],
    [
      input('dims: [ 0, 3 ]'),
      'input "x": dims [ 0, 3 ]: 0 is not a dimension; expected 1 or more, or -1 for any length',
    ],
    [input('dims: [ -2 ]'), 'input "x": dims [ -2 ]: -2 is not a dimension'],
    [input('dims: [ 4, 4611686018427387904 ]'), 'input "x": dims [ 4, 4611686018427387904 ]: more than'],
    [input('dims: 1') + input('dims: 2'), 'input "x" is listed twice'],
    [
      input('dims: [ 2, 3 ] reshape { shape: [ 5 ] }'),
      'dims [ 2, 3 ] and reshape [ 5 ] do not hold equally many elements',
    ],
    [input('dims: [ 2, 3 ] reshape { }'), 'dims [ 2, 3 ] and reshape [ ] do not hold equally many elements'],
    [input('dims: [ -1, 3 ] reshape { shape: [ 3, -1 ] }'), 'dims [ -1, 3 ] and reshape [ 3, -1 ] do not hold'],
    [input('dims: [ -1 ] reshape { shape: [ -1, -1 ] }'), 'dims [ -1 ] and reshape [ -1, -1 ] do not hold'],
    [input('dims: [ 1 ] reshape { shape: [ 0 ] }'), 'input "x": reshape [ 0 ]: 0 is not a dimension'],
    [input('dims: [ 3, 4 ] format: FORMAT_NHWC'), 'input "x": FORMAT_NHWC needs 3 dims, got [ 3, 4 ]'],
    [input('dims: 1 is_shape_tensor: true'), 'input "x": is_shape_tensor is for TensorRT models only'],
    [input('dims: 1 is_non_linear_format_io: true'), 'input "x": is_non_linear_format_io is for TensorRT models only'],
    ['output { name: "y" data_type: TYPE_FP32 dims: 0 }', 'output "y": dims [ 0 ]: 0 is not a dimension'],
    ['version_policy { specific { } }', 'version_policy: specific lists no versions'],
    ['version_policy { specific { versions: 0 } }', 'version_policy: expected version numbers from 1 up, got 0'],
    ['instance_group { count: 5000 }', 'instance_group "m_0": expected a count up to 1024, got 5000'],
    ['instance_group { kind: KIND_CPU gpus: [ 0, 1 ] }', 'instance_group "m_0": gpus [ 0, 1 ] do not go with KIND_CPU'],
    [
      'instance_group { gpus: 0 }',
      'instance_group "m_0": gpus [ 0 ] do not go with KIND_CPU (or KIND_AUTO without a GPU)',
    ],
    ['instance_group { profile: "p" }', 'instance_group "m_0": profile is for TensorRT models only'],
    [
      'max_batch_size: 8 dynamic_batching { preferred_batch_size: [ 4, 9 ] }',
      'dynamic_batching.preferred_batch_size: expected sizes from 1 to max_batch_size (8), got 9',
    ],
    [
      'max_batch_size: 8 dynamic_batching { preferred_batch_size: 0 }',
      'dynamic_batching.preferred_batch_size: expected sizes from 1 to max_batch_size (8), got 0',
    ],
    [
      'max_batch_size: 8 dynamic_batching { priority_levels: 2 default_priority_level: 3 }',
      'dynamic_batching.default_priority_level: expected a level from 1 to priority_levels (2), got 3',
    ],
    [
      'dynamic_batching { priority_levels: 2 default_priority_level: 1 priority_queue_policy { key: 3 value { } } }',
      'dynamic_batching.priority_queue_policy: expected a level from 1 to priority_levels (2) as key, got 3',
    ],
    [
      'dynamic_batching { preserve_ordering: true priority_levels: 2 default_priority_level: 1 }',
      'dynamic_batching: preserve_ordering does not go with more than one priority level',
    ],
    [
      'dynamic_batching { preserve_ordering: true ' +
        'default_queue_policy { timeout_action: DELAY default_timeout_microseconds: 1 } }',
      'dynamic_batching: preserve_ordering does not go with timeout_action DELAY',
    ],
    [
      'dynamic_batching { preserve_ordering: true priority_levels: 1 default_priority_level: 1 ' +
        'priority_queue_policy { key: 1 value { timeout_action: DELAY default_timeout_microseconds: 1 } } }',
      'dynamic_batching: preserve_ordering does not go with timeout_action DELAY',
    ],
    [
      'dynamic_batching { priority_levels: 2 }',
      'dynamic_batching.default_priority_level: expected a level from 1 to priority_levels (2), got 0',
    ],
    [
      'dynamic_batching { default_priority_level: 1 }',
      'dynamic_batching: default_priority_level means nothing without priority_levels',
    ],
    [
      'dynamic_batching { priority_queue_policy { key: 1 value { max_queue_size: 1 } } }',
      'dynamic_batching: priority_queue_policy means nothing without priority_levels',
    ],
    [
      'dynamic_batching { default_queue_policy { timeout_action: 7 } }',
      'timeout_action: 7 has no meaning; known are REJECT, DELAY',
    ],
    ['default_model_filename: "../../x.onnx"', 'default_model_filename: expected the name of a file inside'],
    ['default_model_filename: "/x.onnx"', 'default_model_filename: expected the name of a file inside'],
    [
      'output { name: "y" label_filename: "a/../../b" }',
      'output "y": label_filename: expected the name of a file inside',
    ],
    [
      'optimization { graph { level: 3 } }',
      'optimization.graph.level: expected 0 (all), -1 (basic), 1 (extended) or 2',
    ],
    [
      'parameters { key: "execution_mode" value { string_value: "2" } }',
      'parameter "execution_mode": expected one of "0", "1", got "2"',
    ],
  ])('says what is wrong with %j', (text, problem) => {
    expect(problemsOf(text)).toContainEqual(expect.stringContaining(problem));
  });

  it('finds every problem, not only the first', () => {
    expect(problemsOf(`max_batch_size: -1 ${input('dims: 0')} instance_group { kind: KIND_GPU }`)).toHaveLength(3);
  });
});

describe('validateBeforeLoad', () => {
  it('refuses what needs no model file, and does not mind what is still to be completed', () => {
    const config = normaliseModelConfig(
      parseModelConfig('default_model_filename: "../x" dynamic_batching { preferred_batch_size: 4 }', 'config.pbtxt'),
    );
    expect(validateBeforeLoad(config)).toEqual([expect.stringContaining('default_model_filename')]);
  });
});
