import { describe, expect, it } from 'vitest';
import { fieldAt, findConfigField, readConfigFields, type FieldStep } from '../../../../shared/model/config-fields.ts';

const TEXT = `# a config
name: 'm' "odel"
input [
  { name: "a" dims: [ 3, 4 ] },
  { name: "b", dims: 1 dims: 2; reshape < shape: [ ] > }
]
parameters: { key: "k", value { string_value: "v" } }
parameters { key: "l" value: { } }
`;
const fields = readConfigFields(TEXT);

/** The text of the field at the end of a path. */
function at(...path: FieldStep[]): string | undefined {
  const field = findConfigField(fields, path);
  return field && TEXT.slice(field.start, field.end);
}

describe('readConfigFields', () => {
  it('knows where each field begins and ends', () => {
    expect(fields.map(({ name }) => name)).toEqual(['name', 'input', 'input', 'parameters', 'parameters']);
    expect(at('name')).toBe(`name: 'm' "odel"`);
    expect(at({ name: 'input', entry: 'a' })).toBe('{ name: "a" dims: [ 3, 4 ] }');
    expect(at({ name: 'input', entry: 'a' }, 'dims')).toBe('dims: [ 3, 4 ]');
    expect(at({ name: 'input', entry: 1 }, 'reshape', 'shape')).toBe('shape: [ ]');
  });

  it('joins strings that stand side by side', () => {
    expect(fields[0]?.value).toBe('model');
  });

  it('finds an entry of a map by its key', () => {
    expect(at({ name: 'parameters', entry: 'k' }, 'value', 'string_value')).toBe('string_value: "v"');
  });

  it('stops at the last field of a path that is written down', () => {
    expect(at({ name: 'input', entry: 'b' }, 'data_type')).toContain('name: "b"');
    expect(at({ name: 'output', entry: 'b' })).toBeUndefined();
  });

  it('comes to an end in brackets without end', () => {
    expect(readConfigFields('input { reshape '.repeat(10_000)).length).toBeGreaterThan(0);
    expect(readConfigFields('input [ {').length).toBeGreaterThan(0);
    expect(readConfigFields('dims: [ 1, 2').length).toBe(1);
  });
});

describe('fieldAt', () => {
  it('is the innermost field around a place', () => {
    expect(fieldAt(fields, TEXT.indexOf('4 ]'))?.name).toBe('dims');
    expect(fieldAt(fields, TEXT.indexOf('"v"'))?.name).toBe('string_value');
    expect(fieldAt(fields, 0)).toBeUndefined();
  });
});
