import type { Datatype } from './datatype.ts';
import { Pieces } from './pieces.ts';

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
  /** The same bytes as they came, where that is in several pieces: `data` joins them when it is first looked at. */
  readonly pieces?: Pieces;
  /** Set only on tensors made by preprocessing: `data` is UINT8 pixels although `datatype` is FP32. */
  readonly pixels?: PixelEncoding;
}

/** A tensor of memory, or of bytes that came in several pieces. */
export function createTensor(
  name: string,
  datatype: Datatype,
  shape: readonly number[],
  bytes: Uint8Array | Pieces,
): Tensor {
  if (!(bytes instanceof Pieces)) return { name, datatype, shape, data: bytes };
  return {
    name,
    datatype,
    shape,
    pieces: bytes,
    get data() {
      return bytes.join();
    },
  };
}

/** The bytes of a tensor's data, which are not looked at. */
export function byteLengthOf(tensor: Tensor): number {
  return tensor.pieces ? tensor.pieces.length : tensor.data.byteLength;
}

/** The bytes of all of them. */
export function totalBytesOf(tensors: readonly Tensor[]): number {
  let bytes = 0;
  for (const tensor of tensors) bytes += byteLengthOf(tensor);
  return bytes;
}

/** Number of elements of a shape; 1 for a scalar. The caller has checked that the dimensions are non-negative. */
export function elementCount(shape: readonly number[]): number {
  let count = 1;
  for (const dim of shape) count *= dim;
  return count;
}
