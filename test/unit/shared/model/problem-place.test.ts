import { describe, expect, it } from 'vitest';
import { readConfigFields } from '../../../../shared/model/config-fields.ts';
import { fieldOfProblem } from '../../../../shared/model/problem-place.ts';

const TEXT = `max_batch_size: -1
input [ { name: "a" dims: [ 0 ] }, { dims: 1 } ]
output { name: "b" label_filename: "../x" }
dynamic_batching { preferred_batch_size: [ 16 ] }
instance_group [ { count: 2 }, { name: "g" kind: KIND_GPU } ]
parameters { key: "execution_mode" value { string_value: "7" } }
optimization { graph { level: 9 } }
platform: "ensemble" ensemble_scheduling { step { model_name: "x" } step { model_name: "y" } }
`;

describe('fieldOfProblem', () => {
  it.each([
    ['max_batch_size: expected 0 or more, got -1', 'max_batch_size: -1'],
    ['input "a": dims [ 0 ]: 0 is not a dimension', 'dims: [ 0 ]'],
    ['input "a": data_type is missing', '{ name: "a" dims: [ 0 ] }'],
    ['input 1: name is missing', '{ dims: 1 }'],
    ['output "b": label_filename: expected the name of a file', 'label_filename: "../x"'],
    ['dynamic_batching.preferred_batch_size: expected sizes', 'preferred_batch_size: [ 16 ]'],
    ['dynamic_batching: preserve_ordering does not go with', 'dynamic_batching { preferred_batch_size: [ 16 ] }'],
    ['instance_group "m_0": expected a count', '{ count: 2 }'],
    ['instance_group "g": kind: KIND_GPU is not supported: models run on the CPU here', 'kind: KIND_GPU'],
    ['parameter "execution_mode": expected one of', 'string_value: "7"'],
    ['optimization.graph.level: expected 0', 'level: 9'],
    ['instance_group[1].kind: 9 has no meaning', 'kind: KIND_GPU'],
    ['step 2, model "y": input_map is missing', 'step { model_name: "y" }'],
  ])('%s', (problem, field) => {
    const found = fieldOfProblem(readConfigFields(TEXT), problem);
    expect(found && TEXT.slice(found.start, found.end)).toBe(field);
  });

  it.each(['model_warmup is not supported yet', 'the server is upside down', ''])('nowhere: %j', (problem) => {
    expect(fieldOfProblem(readConfigFields(TEXT), problem)).toBeUndefined();
  });
});
