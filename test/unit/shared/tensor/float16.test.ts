import { expect, test } from 'vitest';
import { bfloat16Value, float16Value } from '../../../../shared/tensor/float16.ts';

test('every bfloat16 is the float32 with its upper half', () => {
  const wrong: number[] = [];
  const view = new DataView(new ArrayBuffer(4));
  for (let bits = 0; bits <= 0xffff; bits++) {
    view.setUint32(0, bits * 0x1_0000);
    if (!Object.is(bfloat16Value(bits), view.getFloat32(0))) wrong.push(bits);
  }
  expect(wrong).toEqual([]);
});

test('float16 grows with its bits, up to infinity, and each sign has a zero', () => {
  const wrong: number[] = [];
  for (let bits = 0; bits < 0x7c00; bits++) {
    if (!(float16Value(bits) < float16Value(bits + 1))) wrong.push(bits);
    if (!Object.is(float16Value(bits | 0x8000), -float16Value(bits))) wrong.push(bits);
  }
  expect(wrong).toEqual([]);
  expect(float16Value(0x7c00)).toBe(Infinity);
  expect(float16Value(0xfc00)).toBe(-Infinity);
  expect(float16Value(0x7c01)).toBeNaN();
});

test.each([
  [0x0000, 0],
  [0x0001, 2 ** -24],
  [0x03ff, 2 ** -14 - 2 ** -24],
  [0x0400, 2 ** -14],
  [0x3555, 0.333251953125],
  [0x3c00, 1],
  [0x3c01, 1.0009765625],
  [0xc000, -2],
  [0x7bff, 65504],
])('float16 %d is %d', (bits, value) => {
  expect(float16Value(bits)).toBe(value);
});
