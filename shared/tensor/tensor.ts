import type { Datatype } from './datatype.ts';

/**
 * How 8-bit pixels stand for a normalised float tensor while they travel: `data` holds UINT8 pixels, rows x height x
 * width x channels, and the engine writes `table[channel][pixel]` into the model's own FP32 layout when it assembles the
 * batch. A quarter of the bytes of FP32.
 */
export interface PixelEncoding {
  /** Layout of the tensor that the model sees: NCHW or NHWC. */
  readonly layout: 'NCHW' | 'NHWC';
  /** Per channel: value = fround(fround(fround(pixel * rescale) - mean) / std). */
  readonly rescale: number;
  readonly mean: readonly number[];
  readonly std: readonly number[];
}

/**
 * One tensor in KServe's binary form: elements row-major and little-endian without padding, BOOL one byte each, BYTES as
 * a little-endian uint32 length and the bytes for each element. `data` is never written to after construction.
 */
export interface Tensor {
  readonly name: string;
  readonly datatype: Datatype;
  readonly shape: readonly number[];
  readonly data: Uint8Array;
  /** Set only on tensors made by preprocessing: `data` is UINT8 pixels although `datatype` is FP32. */
  readonly pixels?: PixelEncoding;
}

/** Number of elements of a shape; 1 for a scalar. The caller has checked that the dimensions are non-negative. */
export function elementCount(shape: readonly number[]): number {
  let count = 1;
  for (const dim of shape) count *= dim;
  return count;
}
