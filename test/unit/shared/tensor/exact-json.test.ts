import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parseExactJson } from '../../../../shared/tensor/exact-json.ts';

describe('parseExactJson', () => {
  test('reads what JSON.parse reads, to the same values', () => {
    fc.assert(
      fc.property(fc.json(), fc.boolean(), (text, pretty) => {
        const value: unknown = JSON.parse(text);
        const source = pretty ? JSON.stringify(value, null, '\t ') : text;
        expect(withNumbers(parseExactJson(source))).toEqual(value);
      }),
    );
  });

  test('keeps every integer exact', () => {
    fc.assert(
      fc.property(fc.bigInt(-(2n ** 70n), 2n ** 70n), (integer) => {
        const [value] = parseExactJson(`[${integer}]`) as [number | bigint];
        expect(BigInt(value)).toBe(integer);
        expect(typeof value).toBe(Number.isSafeInteger(Number(integer)) ? 'number' : 'bigint');
      }),
    );
  });

  test('leaves digits in strings and fractions alone', () => {
    expect(parseExactJson('{"a\\"9007199254740993":"9007199254740993","b":9007199254740993.5,"c":1e20}')).toEqual({
      'a"9007199254740993': '9007199254740993',
      b: 9007199254740994,
      c: 1e20,
    });
  });

  test('makes "__proto__" an own property, as JSON.parse does', () => {
    const value = parseExactJson('{"__proto__":{"x":1}}');
    expect(Object.keys(value as object)).toEqual(['__proto__']);
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
  });

  test.each([
    '',
    '{',
    '[1,]',
    '{"a" 1}',
    '{a:1}',
    '01',
    '1.',
    '"\n"',
    '"a',
    'tru',
    'NaN',
    '[1] 2',
    '-',
    '"\\x"',
    '{"a":1,}',
  ])('refuses %j', (text) => {
    expect(() => parseExactJson(text)).toThrow('cannot be parsed at character');
  });

  test('limits nesting', () => {
    expect(() => parseExactJson('['.repeat(100_000))).toThrow('nested deeper');
  });
});

function withNumbers(value: unknown): unknown {
  if (typeof value === 'bigint') return Number(value);
  if (Array.isArray(value)) return value.map(withNumbers);
  if (typeof value === 'object' && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, withNumbers(item)]));
  }
  return value;
}
