import { describe, expect, it } from 'vitest';
import { listConfigErrors } from '../../../../shared/model/list-config-errors.ts';
import { parseModelConfig } from '../../../../shared/model/parse-config.ts';

function errorsOf(text: string): string[] {
  const read = listConfigErrors(text);
  return Array.isArray(read) ? read.map(({ line, column, what }) => `${line}:${column}: ${what}`) : [];
}

describe('listConfigErrors', () => {
  it('reads a config without mistakes', () => {
    const text = '\uFEFFname: "m" max_batch_size: 4';
    expect(listConfigErrors(text)).toEqual(parseModelConfig(text, 'config.pbtxt'));
  });

  it('lists every mistake with its place, not only the first', () => {
    const text = `max_batch_sise: 8, backend_: "x"
input [ { name: "x" data_type: TYPE_FLOAT dims: [ 32 ] }, { nam: "y" } ]
dynamic_batching { max_queue_delay_micros: 5 }
instance_group [ { kind: KIND_CUP count: "two" } ]
max_batch_size: 4 max_batch_size: 5
version_policy { latest { } all { } }
`;
    expect(errorsOf(text)).toEqual([
      '1:1: unknown field "max_batch_sise" in ModelConfig; did you mean "max_batch_size"?',
      '1:20: unknown field "backend_" in ModelConfig; did you mean "backend"?',
      '2:32: unknown value "TYPE_FLOAT" for DataType; did you mean "TYPE_FP32"?',
      '2:61: unknown field "nam" in ModelInput; did you mean "name"?',
      '3:20: unknown field "max_queue_delay_micros" in ModelDynamicBatching; did you mean "max_queue_delay_microseconds"?',
      '4:26: unknown value "KIND_CUP" for ModelInstanceGroup.Kind; did you mean "KIND_CPU"?',
      '4:42: expected an integer, got a string',
      '5:19: non-repeated field "max_batch_size" is repeated',
      '6:29: oneof "policy_choice" is already set',
    ]);
  });

  it('does not guess behind a mistake whose end is not sure', () => {
    expect(errorsOf('max_batch_size:\ninput [ { name: "x" } ]\nmax_batch_sise: 8')).toHaveLength(1);
    expect(errorsOf('dims_: [ 1, ] input { ')).toHaveLength(2);
    expect(errorsOf('input { name: "x"\nmax_batch_size: 8')).toHaveLength(2);
  });

  it('says what the parser says where there is one mistake', () => {
    for (const text of [
      'platfrom: "x"',
      'input { data_type: TYPE_FP3 }',
      'name: ${name}',
      '// no comment',
      'name: "x',
    ]) {
      const [first] = errorsOf(text);
      expect(() => parseModelConfig(text, 'c')).toThrow(`c:${first ?? 'nothing'}`);
    }
  });

  it('ends in a file full of mistakes', () => {
    expect(errorsOf('wrong: 1\n'.repeat(500)).length).toBe(50);
    expect(errorsOf('input { reshape '.repeat(2_000)).length).toBeGreaterThan(0);
  });
});
