import { describe, expect, it } from 'vitest';
import { completeModelConfig, type Graph } from '../../../../shared/model/complete-config.ts';
import type { GraphTensor } from '../../../../shared/model/graph-tensor.ts';
import { normaliseModelConfig } from '../../../../shared/model/normalise-config.ts';
import { parseModelConfig } from '../../../../shared/model/parse-config.ts';
import { sequenceIdleMs } from '../../../../shared/model/sequence-routing.ts';
import { validateBeforeLoad, validateModelConfig } from '../../../../shared/model/validate-config.ts';
import { verifyModelConfig } from '../../../../shared/model/verify-config.ts';
import type { Datatype } from '../../../../shared/tensor/datatype.ts';

const INPUT = 'input { name: "x" data_type: TYPE_FP32 dims: [ 1 ] }';
const OUTPUT = 'output { name: "y" data_type: TYPE_FP32 dims: [ 1 ] }';

function parse(text: string) {
  return parseModelConfig(`name: "m" ${text}`, 'config.pbtxt');
}

function problemsOf(batching: string, rest = 'max_batch_size: 4'): string[] {
  const config = parse(`${rest} ${INPUT} ${OUTPUT} sequence_batching { ${batching} }`);
  return validateModelConfig(normaliseModelConfig(config));
}

function control(kind: string, fields: string, name = kind): string {
  return `control_input { name: "${name}" control { kind: CONTROL_SEQUENCE_${kind} ${fields} } }`;
}

function state(fields: string): string {
  return `state { input_name: "in" output_name: "out" data_type: TYPE_FP32 ${fields} }`;
}

describe('sequence_batching in a config', () => {
  it.each([
    '',
    'direct { minimum_slot_utilization: 1 max_queue_delay_microseconds: 5 }',
    'oldest { max_candidate_sequences: 4 preferred_batch_size: [ 2, 4 ] preserve_ordering: true }',
    control('START', 'int32_false_true: [ 0, 1 ]'),
    control('READY', 'fp32_false_true: [ 1, 0 ]') + control('END', 'bool_false_true: [ false, true ]'),
    control('CORRID', 'data_type: TYPE_STRING'),
    state('dims: [ 2, -1 ]'),
    state('dims: [ 2, -1 ] initial_state { data_type: TYPE_FP32 dims: [ 2, 7 ] zero_data: true }'),
    state('dims: [ 1 ] initial_state { data_type: TYPE_FP32 dims: [ 1 ] data_file: "first.bin" }'),
  ])('may be %j', (batching) => {
    expect(problemsOf(batching)).toEqual([]);
  });

  it.each([
    [
      'direct { minimum_slot_utilization: 1.5 }',
      'direct.minimum_slot_utilization: expected a number from 0 to 1, got 1.5',
    ],
    ['oldest { preferred_batch_size: 5 }', 'preferred_batch_size: expected sizes from 1 to max_batch_size (4), got 5'],
    ['oldest { max_candidate_sequences: -1 }', 'max_candidate_sequences: expected 0 or more, got -1'],
    [control('START', ''), 'CONTROL_SEQUENCE_START needs exactly one of int32_false_true, fp32_false_true'],
    [control('START', 'int32_false_true: [ 0, 1 ] fp32_false_true: [ 0, 1 ]'), 'needs exactly one of int32_false_true'],
    [control('END', 'int32_false_true: [ 0, 1, 2 ]'), 'needs two values, for false and for true, got 3'],
    [control('CORRID', 'data_type: TYPE_FP32'), 'CONTROL_SEQUENCE_CORRID needs a data_type: TYPE_UINT64'],
    [control('CORRID', 'data_type: TYPE_INT64 int32_false_true: [ 0, 1 ]'), 'has no values for false and true'],
    [
      control('READY', 'int32_false_true: [ 0, 1 ]') + control('READY', 'int32_false_true: [ 0, 1 ]', 'b'),
      'control_input[1]: CONTROL_SEQUENCE_READY is there twice',
    ],
    [
      control('READY', 'int32_false_true: [ 0, 1 ]', 'a') + control('END', 'int32_false_true: [ 0, 1 ]', 'a'),
      'control_input[1]: tensor "a" is an input already',
    ],
    [control('READY', 'int32_false_true: [ 0, 1 ]', 'x'), 'control_input[0]: tensor "x" is an input already'],
    ['control_input { name: "a" }', 'control_input[0]: expected one control for each tensor, got 0'],
    [control('READY', 'int32_false_true: [ 0, 1 ]', ''), 'control_input[0]: name is missing'],
    ['state { output_name: "out" data_type: TYPE_FP32 dims: [ 1 ] }', 'state[0]: input_name is missing'],
    ['state { input_name: "in" data_type: TYPE_FP32 dims: [ 1 ] }', 'state[0]: output_name is missing'],
    ['state { input_name: "in" output_name: "out" dims: [ 1 ] }', 'state[0]: data_type is missing'],
    [state('dims: [ 0 ]'), 'state[0]: dims [ 0 ]: 0 is not a dimension'],
    [state('dims: [ 1 ]') + state('dims: [ 1 ]').replace('"in"', '"in2"'), 'state[1]: output "out" is there twice'],
    [
      state('dims: [ 2 ] initial_state { data_type: TYPE_FP32 dims: [ 3 ] zero_data: true }'),
      'initial_state: expected dims of fixed lengths that fit [ 2 ], got [ 3 ]',
    ],
    [
      state('dims: [ 1 ] initial_state { data_type: TYPE_INT32 dims: [ 1 ] zero_data: true }'),
      'must be that of the state',
    ],
    [state('dims: [ 1 ] initial_state { data_type: TYPE_FP32 dims: [ 1 ] }'), 'expected zero_data or data_file'],
    [
      state('dims: [ 1 ] initial_state { data_type: TYPE_FP32 dims: [ 1 ] data_file: "../x" }'),
      `data_file: expected the name of a file inside the model's folder, got "../x"`,
    ],
    ['iterative_sequence: true', 'sequence_batching.iterative_sequence is not supported'],
    [state('dims: [ 1 ] use_growable_memory: true'), 'state "in": use_growable_memory is not supported'],
    [
      state('dims: [ 1 ] use_same_buffer_for_input_output: true'),
      'state "in": use_same_buffer_for_input_output is not supported',
    ],
  ])('must not be %j', (batching, text) => {
    expect(problemsOf(batching)).toEqual([expect.stringContaining(text)]);
  });

  it('does not go with a response cache', () => {
    const problems = problemsOf('', 'max_batch_size: 4 response_cache { enable: true }');
    expect(problems).toContain('response_cache does not go with sequence_batching');
  });

  it('is refused for what is not supported before the model file is opened', () => {
    const config = normaliseModelConfig(parse('sequence_batching { iterative_sequence: true }'));
    expect(validateBeforeLoad(config)).toEqual([
      expect.stringContaining('sequence_batching.iterative_sequence is not supported'),
    ]);
  });
});

function tensor(name: string, datatype: Datatype, shape: readonly number[]): GraphTensor {
  return { name, datatype, typeName: datatype, shape, symbols: shape.map(() => '') };
}

describe('a model file with controls and states', () => {
  const graph: Graph = {
    inputs: [tensor('x', 'FP32', [-1, 1]), tensor('START', 'INT32', [-1, 1]), tensor('in', 'FP32', [-1, 2])],
    outputs: [tensor('y', 'FP32', [-1, 1]), tensor('out', 'FP32', [-1, 2])],
  };
  const batching = `sequence_batching { ${control('START', 'int32_false_true: [ 0, 1 ]')} ${state('dims: [ 2 ]')} }`;

  it('fits a config that lists neither as input or output', () => {
    const config = normaliseModelConfig(parse(`max_batch_size: 4 ${INPUT} ${OUTPUT} ${batching}`));
    expect(verifyModelConfig(config, graph)).toEqual([]);
  });

  it('completes a config with the tensors that are left for clients', () => {
    const { input, output, maxBatchSize } = completeModelConfig(parse(batching), graph);
    expect(input.map(({ name }) => name)).toEqual(['x']);
    expect(output.map(({ name }) => name)).toEqual(['y']);
    expect(maxBatchSize).toBe(4);
  });

  it.each([
    ['START', 'RESET', 'control input "RESET" is not in the model file, whose inputs are x, START, in'],
    ['int32_false_true', 'fp32_false_true', 'control input "START" is FP32 in the config, the model file has INT32'],
    ['dims: [ 2 ]', 'dims: [ 3 ]', 'state input "in" has shape [ -1, 3 ], the model file has [ -1, 2 ]'],
    ['output_name: "out"', 'output_name: "o"', 'state output "o" is not in the model file, whose outputs are y, out'],
  ])('does not fit with %s written as %s', (from, to, text) => {
    const changed = batching.replace(`"${from}"`, `"${to}"`).replace(from === 'START' ? '\0' : from, to);
    const config = normaliseModelConfig(parse(`max_batch_size: 4 ${INPUT} ${OUTPUT} ${changed}`));
    expect(verifyModelConfig(config, graph)).toContain(`sequence_batching: ${text}`);
  });
});

describe('sequenceIdleMs', () => {
  const plain = normaliseModelConfig(parse(''));
  const sums = normaliseModelConfig(parse('sequence_batching { max_sequence_idle_microseconds: 2500000 }'));
  const ensemble = (...steps: string[]) =>
    parse(
      `platform: "ensemble" ensemble_scheduling { ${steps.map((s) => `step { model_name: "${s}" model_version: -1 }`).join(' ')} }`,
    );

  it('tells models with sequences from others, ensembles by their steps', () => {
    const models = new Map([
      ['plain', plain],
      ['sums', sums],
      ['both', ensemble('plain', 'sums')],
      ['circle', ensemble('circle')],
    ]);
    const idleMs = (name: string) => sequenceIdleMs(models.get(name) ?? plain, (model) => models.get(model));
    expect(['plain', 'sums', 'both', 'circle'].map(idleMs)).toEqual([undefined, 2500, 2500, undefined]);
    expect(sequenceIdleMs(ensemble('both', 'unknown'), (model) => models.get(model))).toBe(2500);
    expect(sequenceIdleMs(normaliseModelConfig(parse('sequence_batching { }')), () => undefined)).toBe(1000);
  });
});
