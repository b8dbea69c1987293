import { describe, expect, it } from 'vitest';
import { parseYamlSubset } from '../../support/yaml-subset.ts';

describe('parseYamlSubset', () => {
  it('reads maps, lists and scalars', () => {
    const text = [
      '# a comment',
      'a: 1',
      'b:',
      `  c: ["x", 'y']`,
      '  d:',
      '    - --flag',
      '    - "yes"',
      '    - ${X:-1}:8000',
      'e:',
      'f: true',
    ];
    expect(parseYamlSubset(text.join('\n'))).toEqual({
      a: 1,
      b: { c: ['x', 'y'], d: ['--flag', 'yes', '${X:-1}:8000'] },
      e: null,
      f: true,
    });
  });

  it.each([
    'a: 1\na: 2',
    'a:\n\tb: 1',
    'a: yes',
    'a: b: c',
    'a: &x',
    'a: [b]',
    'a: "b',
    "a: 'it''s'",
    'a: "\\n"',
    'a: 1\n    b: 2',
    'a:\n  - 1\n  b: 2',
    'a: 1 # no',
  ])('refuses %j', (text) => {
    expect(() => parseYamlSubset(text)).toThrow(/^line \d/);
  });
});
