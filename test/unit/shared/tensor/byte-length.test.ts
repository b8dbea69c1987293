import { describe, expect, test } from 'vitest';
import { assertTensorData, checkedElementCount } from '../../../../shared/tensor/byte-length.ts';
import { assertBytesLayout, decodeBytes, encodeBytes, encodeTexts } from '../../../../shared/tensor/bytes.ts';

describe('checkedElementCount', () => {
  test.each([
    [[], 1],
    [[3], 3],
    [[2, 3, 4], 24],
    [[0, 5], 0],
    [new Array(64).fill(1), 1],
  ])('counts %j', (shape, count) => {
    expect(checkedElementCount('x', shape)).toBe(count);
  });

  test.each([
    [[-1]],
    [[1.5]],
    [['2']],
    [[null]],
    [[[1]]],
    [[NaN]],
    [[2 ** 53]],
    [[2 ** 31, 2 ** 31]],
    [[0, 2 ** 52]],
    [new Array(65).fill(1)],
  ])('refuses %j', (shape) => {
    expect(() => checkedElementCount('input x', shape)).toThrow('input x: shape');
  });
});

describe('BYTES', () => {
  test('come apart into what they were made of', () => {
    const elements = ['', 'a', 'ü☃', 'x'.repeat(70_000)].map((text) => Uint8Array.from(Buffer.from(text)));
    const data = encodeBytes(elements);
    expect(decodeBytes(data).map((element) => Uint8Array.from(element))).toEqual(elements);
    expect(encodeTexts(['', 'a', 'ü☃', 'x'.repeat(70_000)])).toEqual(data);
    expect(() => assertBytesLayout('x', data, 4)).not.toThrow();
  });

  test('read a length of four bytes as unsigned', () => {
    expect(() => assertBytesLayout('x', Uint8Array.of(0xff, 0xff, 0xff, 0xff, 1), 1)).toThrow(
      '4294967295 bytes, but 1',
    );
  });
});

test('a tensor must have the bytes of its shape', () => {
  const tensor = { name: 'x', datatype: 'INT64' as const, shape: [2], data: new Uint8Array(15) };
  expect(() => assertTensorData('input x', tensor)).toThrow(
    'input x: expected 16 bytes, got 15 (shape [2], datatype INT64)',
  );
});
