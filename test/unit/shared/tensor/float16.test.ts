import { describe, expect, test } from 'vitest';
import {
  BFLOAT16_MAX,
  bfloat16Bits,
  bfloat16Value,
  FLOAT16_MAX,
  float16Bits,
  float16Value,
} from '../../../../shared/tensor/float16.ts';

describe.each([
  ['float16', float16Bits, float16Value, 0x7c00, FLOAT16_MAX],
  ['bfloat16', bfloat16Bits, bfloat16Value, 0x7f80, BFLOAT16_MAX],
] as const)('%s', (_name, bitsOf, valueOf, infinity, max) => {
  test('every bit pattern that is a number comes back as itself', () => {
    const wrong: number[] = [];
    for (let bits = 0; bits <= 0xffff; bits++) {
      const value = valueOf(bits);
      if (!Number.isNaN(value) && bitsOf(value) !== bits) wrong.push(bits);
    }
    expect(wrong).toEqual([]);
  });

  test('rounds halves to the even neighbour and everything else to the nearer one', () => {
    const wrong: number[] = [];
    for (let bits = 0; bits < infinity - 1; bits++) {
      const low = valueOf(bits);
      const high = valueOf(bits + 1);
      const middle = (low + high) / 2;
      const even = bits % 2 === 0 ? bits : bits + 1;
      if (bitsOf(middle) !== even) wrong.push(bits);
      if (bitsOf(middle - (high - low) / 64) !== bits) wrong.push(bits);
      if (bitsOf(middle + (high - low) / 64) !== bits + 1) wrong.push(bits);
    }
    expect(wrong).toEqual([]);
  });

  test('values beyond the largest become infinity, those near it round to it', () => {
    expect(valueOf(infinity - 1)).toBe(max);
    const step = max - valueOf(infinity - 2);
    expect(bitsOf(max + step / 4)).toBe(infinity - 1);
    expect(bitsOf(max + step)).toBe(infinity);
    expect(bitsOf(-1e300)).toBe(0x8000 | infinity);
    expect(bitsOf(Infinity)).toBe(infinity);
  });

  test('keeps the sign of zero and gives one NaN', () => {
    expect(bitsOf(-0)).toBe(0x8000);
    expect(Object.is(valueOf(0x8000), -0)).toBe(true);
    expect(valueOf(bitsOf(NaN))).toBeNaN();
  });
});

test('rounds once, straight from the double', () => {
  // Rounded to float32 first, this would land exactly on the half and then go to the even neighbour below.
  const justAboveHalf = 1 + 2 ** -11 + 2 ** -30;
  expect(float16Bits(justAboveHalf)).toBe(0x3c01);
  expect(float16Bits(Math.fround(justAboveHalf))).toBe(0x3c00);
});

test('knows the published values', () => {
  expect(float16Bits(65504)).toBe(0x7bff);
  expect(float16Bits(1 / 3)).toBe(0x3555);
  expect(float16Bits(6e-8)).toBe(0x0001);
  expect(bfloat16Bits(-2.5)).toBe(0xc020);
  expect(bfloat16Bits(1)).toBe(0x3f80);
});
