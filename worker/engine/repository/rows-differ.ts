import type { Tensor } from '../../../shared/tensor/tensor.ts';

/** Sums in another order may differ by so much, relative to the size of the row. */
const TOLERANCE = 1e-3;

/**
 * Whether rows that ran together are other ones than `a` and `b`, which ran alone. Quantised models move a row a little
 * with its company, so a deviation counts only when it is large beside the distance of the two rows too: a swapped, lost
 * or repeated row is.
 */
export function rowsDiffer(a: Tensor, b: Tensor, together: readonly [Uint8Array, Uint8Array]): boolean {
  const numbers = (data: Uint8Array) => numbersOf({ ...a, data });
  const rowA = numbers(a.data);
  const rowB = numbers(b.data);
  const togetherA = numbers(together[0]);
  const togetherB = numbers(together[1]);
  if (!rowA || !rowB || !togetherA || !togetherB) {
    return !Buffer.from(a.data).equals(together[0]) || !Buffer.from(b.data).equals(together[1]);
  }
  const apart = distance(rowA, rowB);
  return isOther(rowA, togetherA, apart) || isOther(rowB, togetherB, apart);
}

function isOther(alone: Float64Array, together: Float64Array, apart: number): boolean {
  if (alone.length !== together.length) return true;
  const deviation = distance(alone, together);
  return deviation > apart / 2 && deviation > TOLERANCE * (1 + norm(alone));
}

/** undefined where bytes must be compared. */
export function numbersOf({ datatype, data }: Tensor): Float64Array | undefined {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const read = (size: number, get: (at: number) => number) =>
    Float64Array.from({ length: data.byteLength / size }, (_, index) => get(index * size));
  switch (datatype) {
    case 'FP32':
      return read(4, (at) => view.getFloat32(at, true));
    case 'FP64':
      return read(8, (at) => view.getFloat64(at, true));
    case 'BF16':
      return read(2, (at) => bfloat16(view.getUint16(at, true)));
    case 'FP16':
      return read(2, (at) => float16(view.getUint16(at, true)));
    case 'INT32':
      return read(4, (at) => view.getInt32(at, true));
    case 'INT64':
      return read(8, (at) => Number(view.getBigInt64(at, true)));
    case 'INT8':
      return read(1, (at) => view.getInt8(at));
    case 'UINT8':
      return read(1, (at) => view.getUint8(at));
    default:
      return undefined; // texts, and types that hardly any model answers in
  }
}

function float16(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction === 0 ? sign * Infinity : NaN;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

function bfloat16(bits: number): number {
  return new Float32Array(new Uint32Array([bits << 16]).buffer)[0] ?? NaN;
}

/** Two NaN, or two infinities of one sign, are no distance; one alone is infinite. */
export function distance(a: Float64Array, b: Float64Array): number {
  let sum = 0;
  for (let i = 0; i < a.length; i += 1) {
    const [x, y] = [a[i] ?? NaN, b[i] ?? NaN];
    if (Object.is(x, y) || x === y) continue;
    const difference = x - y;
    if (!Number.isFinite(difference)) return Infinity;
    sum += difference * difference;
  }
  return Math.sqrt(sum);
}

export function norm(values: Float64Array): number {
  let sum = 0;
  for (const value of values) if (Number.isFinite(value)) sum += value * value;
  return Math.sqrt(sum);
}
