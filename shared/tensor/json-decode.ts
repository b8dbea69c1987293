import { InferError } from '../errors.ts';
import { encodeTexts } from './bytes.ts';
import type { Datatype } from './datatype.ts';
import { shownValue } from './text.ts';

const MAX_DEPTH = 100;
const LONE_SURROGATE = /\p{Surrogate}/u;

/** What an element of an integer datatype may be. */
interface IntegerRange {
  readonly min: number;
  readonly max: number;
  readonly allocate: (count: number) => Uint8Array | Uint16Array | Uint32Array | Int8Array | Int16Array | Int32Array;
}

const INTEGERS: Partial<Record<Datatype, IntegerRange>> = {
  UINT8: { min: 0, max: 0xff, allocate: (count) => new Uint8Array(count) },
  UINT16: { min: 0, max: 0xffff, allocate: (count) => new Uint16Array(count) },
  UINT32: { min: 0, max: 0xffff_ffff, allocate: (count) => new Uint32Array(count) },
  INT8: { min: -0x80, max: 0x7f, allocate: (count) => new Int8Array(count) },
  INT16: { min: -0x8000, max: 0x7fff, allocate: (count) => new Int16Array(count) },
  INT32: { min: -0x8000_0000, max: 0x7fff_ffff, allocate: (count) => new Int32Array(count) },
};

/**
 * A tensor's bytes from its JSON `data`: flat or nested arrays, row-major, exactly `count` elements, each in the range of
 * the datatype. Nothing is converted by guessing: BOOL takes true and false, integers take whole numbers, FP32 and FP64
 * take numbers and the strings "NaN", "Infinity" and "-Infinity", BYTES takes strings (as UTF-8). FP16 and BF16 have no
 * JSON form, as in Triton.
 * @param where for messages: "input x"
 * @param exact gives the same `data` again with integers beyond 2^53 as bigint; called only when it may matter.
 * @param bareFloats whether NaN and infinities among the numbers are meant, and not what became of a number too large
 * @throws InferError INVALID_ARGUMENT naming the element.
 */
export function decodeJsonData(
  where: string,
  datatype: Datatype,
  count: number,
  data: unknown,
  exact: () => unknown,
  bareFloats = false,
): Uint8Array {
  if (datatype === 'FP16' || datatype === 'BF16') {
    throw invalid(`${where}: ${datatype} cannot travel as JSON, send it with binary_data_size`);
  }
  const values = flatten(where, count, data);
  switch (datatype) {
    case 'BOOL':
      return decodeBooleans(where, values);
    case 'BYTES':
      return decodeTexts(where, values);
    case 'FP64':
      return bytesOf(decodeFloats(where, datatype, values, new Float64Array(count), bareFloats));
    case 'FP32':
      return bytesOf(decodeFloats(where, datatype, values, new Float32Array(count), bareFloats));
    case 'INT64':
    case 'UINT64':
      return decodeLongs(where, datatype, values, () => flatten(where, count, exact()));
    default:
      return decodeIntegers(where, datatype, values);
  }
}

/** Checks the number of elements before anything is allocated for them. A flat array is returned as it is. */
function flatten(where: string, count: number, data: unknown): readonly unknown[] {
  if (!Array.isArray(data)) {
    throw invalid(`${where}: data must be an array, got ${shownValue(data)}`);
  }
  const values: readonly unknown[] = data;
  if (!values.some(Array.isArray)) {
    if (values.length !== count) throw countError(where, count, values.length);
    return values;
  }
  const total = countNested(where, values, 1);
  if (total !== count) throw countError(where, count, total);
  const flat: unknown[] = [];
  collect(values, flat);
  return flat;
}

function countNested(where: string, values: readonly unknown[], depth: number): number {
  if (depth > MAX_DEPTH) throw invalid(`${where}: data is nested deeper than ${MAX_DEPTH} levels`);
  let count = 0;
  for (const value of values) count += Array.isArray(value) ? countNested(where, value, depth + 1) : 1;
  return count;
}

function collect(values: readonly unknown[], into: unknown[]): void {
  for (const value of values) {
    if (Array.isArray(value)) collect(value, into);
    else into.push(value);
  }
}

function decodeBooleans(where: string, values: readonly unknown[]): Uint8Array {
  const data = new Uint8Array(values.length);
  for (const [i, value] of values.entries()) {
    if (typeof value !== 'boolean') throw elementError(where, i, 'true or false', value);
    data[i] = value ? 1 : 0;
  }
  return data;
}

function decodeTexts(where: string, values: readonly unknown[]): Uint8Array {
  for (const [i, value] of values.entries()) {
    if (typeof value !== 'string') throw elementError(where, i, 'a string', value);
    if (LONE_SURROGATE.test(value)) {
      throw invalid(`${where}: element ${i}: the string holds half a surrogate pair and has no UTF-8 form`);
    }
  }
  return encodeTexts(values as readonly string[]); // every element was checked above
}

function decodeIntegers(where: string, datatype: Datatype, values: readonly unknown[]): Uint8Array {
  const range = INTEGERS[datatype];
  if (!range) throw new InferError('INTERNAL', `${datatype} has no JSON form`);
  const { min, max } = range;
  const data = range.allocate(values.length);
  for (let i = 0; i < values.length; i++) {
    const value = values[i];
    if (typeof value !== 'number' || !Number.isInteger(value) || value < min || value > max) {
      throw elementError(where, i, `an integer from ${min} to ${max}`, value);
    }
    data[i] = value;
  }
  return bytesOf(data);
}

function decodeLongs(
  where: string,
  datatype: 'INT64' | 'UINT64',
  values: readonly unknown[],
  exact: () => readonly unknown[],
): Uint8Array {
  const [min, max] = datatype === 'INT64' ? [-(2n ** 63n), 2n ** 63n - 1n] : [0n, 2n ** 64n - 1n];
  const data = new DataView(new ArrayBuffer(values.length * 8));
  let source = values;
  let isExact = false;
  for (let i = 0; i < values.length; i++) {
    let value = source[i];
    if (!isExact && typeof value === 'number' && Number.isInteger(value) && !Number.isSafeInteger(value)) {
      source = exact();
      isExact = true;
      value = source[i];
    }
    if (typeof value === 'number' && Number.isSafeInteger(value) && (value >= 0 || min < 0n)) {
      data.setUint32(i * 8, value, true); // takes the number modulo 2^32, two's complement for negative ones
      data.setUint32(i * 8 + 4, Math.floor(value / 2 ** 32), true);
    } else if (typeof value === 'bigint' && value >= min && value <= max) {
      data.setBigUint64(i * 8, BigInt.asUintN(64, value), true);
    } else {
      throw elementError(where, i, `an integer from ${min} to ${max}`, value);
    }
  }
  return new Uint8Array(data.buffer);
}

function decodeFloats<T extends Float32Array | Float64Array>(
  where: string,
  datatype: Datatype,
  values: readonly unknown[],
  data: T,
  bareFloats: boolean,
): T {
  for (let i = 0; i < values.length; i++) {
    const value = values[i];
    if (typeof value === 'number') {
      data[i] = value;
      if (!Number.isFinite(data[i]) && !(bareFloats && !Number.isFinite(value))) {
        throw elementError(where, i, `a number in the range of ${datatype}`, value);
      }
    } else {
      data[i] = specialFloat(where, i, value);
    }
  }
  return data;
}

function specialFloat(where: string, index: number, value: unknown): number {
  if (value === 'NaN') return NaN;
  if (value === 'Infinity') return Infinity;
  if (value === '-Infinity') return -Infinity;
  throw elementError(where, index, 'a number or one of the strings "NaN", "Infinity", "-Infinity"', value);
}

function bytesOf(view: ArrayBufferView): Uint8Array {
  return new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
}

function countError(where: string, expected: number, given: number): InferError {
  return invalid(`${where}: ${expected} elements expected, ${given} given`);
}

function elementError(where: string, index: number, expected: string, given: unknown): InferError {
  return invalid(`${where}: element ${index}: expected ${expected}, got ${shownValue(given)}`);
}

function invalid(message: string): InferError {
  return new InferError('INVALID_ARGUMENT', message);
}
