import { describe, expect, it } from 'vitest';
import { differenceOf } from '../../../../../producer/service/traffic/compare-outputs.ts';
import type { Datatype } from '../../../../../shared/tensor/datatype.ts';
import type { Tensor } from '../../../../../shared/tensor/tensor.ts';

const f32 = (values: number[], name = 'y', shape = [values.length]): Tensor => ({
  name,
  datatype: 'FP32',
  shape,
  data: new Uint8Array(new Float32Array(values).buffer),
});

const raw = (datatype: Datatype, bytes: number[], shape = [1]): Tensor => ({
  name: 'y',
  datatype,
  shape,
  data: new Uint8Array(bytes),
});

describe('the difference of two answers', () => {
  it('is the largest of their numbers, relative where they are large', () => {
    expect(differenceOf([f32([1, 2])], [f32([1, 2])])).toBe(0);
    expect(differenceOf([f32([0, 0.5])], [f32([0.25, 0.5])])).toBeCloseTo(0.25);
    expect(differenceOf([f32([1000])], [f32([1010])])).toBeCloseTo(10 / 1010);
    expect(differenceOf([f32([NaN, Infinity, 0])], [f32([NaN, Infinity, -0])])).toBe(0);
  });

  it('is endless where one has no number', () => {
    expect(differenceOf([f32([NaN])], [f32([1])])).toBe(Infinity);
    expect(differenceOf([f32([Infinity])], [f32([1])])).toBe(Infinity);
  });

  it('is endless for other outputs, shapes and types', () => {
    expect(differenceOf([f32([1])], [])).toBe(Infinity);
    expect(differenceOf([f32([1])], [f32([1], 'z')])).toBe(Infinity);
    expect(differenceOf([f32([1, 2], 'y', [1, 2])], [f32([1, 2], 'y', [2, 1])])).toBe(Infinity);
    expect(differenceOf([raw('INT32', [1, 0, 0, 0])], [f32([1])])).toBe(Infinity);
  });

  it('looks at outputs by name', () => {
    expect(differenceOf([f32([1], 'a'), f32([2], 'b')], [f32([2], 'b'), f32([1], 'a')])).toBe(0);
  });

  it('lets nothing but floats differ a little', () => {
    expect(differenceOf([raw('INT32', [1, 0, 0, 0])], [raw('INT32', [2, 0, 0, 0])])).toBe(Infinity);
    expect(differenceOf([raw('BYTES', [1, 0, 0, 0, 65])], [raw('BYTES', [1, 0, 0, 0, 66])])).toBe(Infinity);
    expect(differenceOf([raw('FP16', [0x00, 0x3c])], [raw('FP16', [0x01, 0x3c])])).toBeLessThan(0.001);
  });

  it('reads floats from memory that is not aligned', () => {
    const shifted = new Uint8Array(9);
    shifted.set(f32([1, 2]).data, 1);
    expect(differenceOf([f32([1, 3])], [{ ...f32([1, 2]), data: shifted.subarray(1) }])).toBeCloseTo(1 / 3);
  });
});
