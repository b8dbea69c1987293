import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { hasBareFloats, parseBareFloatJson, parseExactJson } from '../../../../shared/tensor/exact-json.ts';

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

describe('parseBareFloatJson', () => {
  test('reads the words for NaN and infinity where a number may stand', () => {
    const text = '{"a":[NaN,-NaN, Inf,-Inf,Infinity , -Infinity],"b":"NaN","c":1.5}';
    expect(hasBareFloats(text)).toBe(true);
    expect(parseBareFloatJson(text, false)).toEqual({
      a: [NaN, NaN, Infinity, -Infinity, Infinity, -Infinity],
      b: 'NaN',
      c: 1.5,
    });
  });

  test('reads what JSON.parse reads, to the same values', () => {
    fc.assert(
      fc.property(fc.json(), (text) => {
        expect(parseBareFloatJson(text, false)).toEqual(JSON.parse(text));
      }),
    );
  });

  test('keeps integers exact on demand', () => {
    expect(parseBareFloatJson('[NaN,9007199254740993]', true)).toEqual([NaN, 9007199254740993n]);
    expect(parseBareFloatJson('[NaN,9007199254740993]', false)).toEqual([NaN, 9007199254740992]);
    // Longer than any integer type: a float, and no work for a bigint of a million digits.
    expect(parseBareFloatJson(`[${'1'.repeat(100)}]`, true)).toEqual([Number('1'.repeat(100))]);
  });

  test('takes infinity only as a word', () => {
    expect(() => parseBareFloatJson('[NaN,1e400]', false)).toThrow('beyond the range of a double at character 5');
    expect(() => parseBareFloatJson(`[${'1'.repeat(400)}]`, true)).toThrow('beyond the range');
  });

  test.each(['[nan]', '[+Infinity]', '[infinity]', '[NaNs]', '[Infinit]', '{NaN:1}', '[-]', '[NaN'])(
    'refuses %j',
    (text) => {
      expect(() => parseBareFloatJson(text, false)).toThrow('cannot be parsed at character');
    },
  );
});

function withNumbers(value: unknown): unknown {
  if (typeof value === 'bigint') return Number(value);
  if (Array.isArray(value)) return value.map(withNumbers);
  if (typeof value === 'object' && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, withNumbers(item)]));
  }
  return value;
}
