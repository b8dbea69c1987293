import { byteSizeOf, type Datatype } from '../shared/tensor/datatype.ts';
import { MillraceError } from './millrace-error.ts';
import type { InputTensor } from './types.ts';

/** An input as it is sent: the bytes of its elements, little-endian. */
export interface EncodedInput {
  readonly name: string;
  readonly datatype: Datatype;
  readonly shape: readonly number[];
  readonly data: Uint8Array;
}

/** The datatype that data of this kind can only have; undefined where several would do. */
export function datatypeOfData(data: InputTensor['data']): Datatype | undefined {
  if (data instanceof Float32Array) return 'FP32';
  if (data instanceof Float64Array) return 'FP64';
  if (data instanceof Int8Array) return 'INT8';
  if (data instanceof Int16Array) return 'INT16';
  if (data instanceof Int32Array) return 'INT32';
  if (data instanceof Uint32Array) return 'UINT32';
  if (data instanceof BigInt64Array) return 'INT64';
  if (data instanceof BigUint64Array) return 'UINT64';
  if (ArrayBuffer.isView(data)) return undefined; // bits of FP16, BOOL and plain integers look alike
  const first: unknown = data[0];
  if (typeof first === 'string' || first instanceof Uint8Array) return 'BYTES';
  return typeof first === 'boolean' ? 'BOOL' : undefined;
}

/** @throws MillraceError for data that does not fit the datatype or the shape */
export function encodeInput(name: string, tensor: InputTensor, datatype: Datatype): EncodedInput {
  const { shape, data } = tensor;
  const expected = shape.reduce((product, dim) => product * dim, 1);
  if (!shape.every((dim) => Number.isSafeInteger(dim) && dim >= 0)) {
    throw new MillraceError(`input '${name}': expected a shape of whole numbers, got [${shape.join(', ')}]`);
  }
  if (data.length !== expected) {
    const needs = `shape [${shape.join(', ')}] has ${expected} elements`;
    throw new MillraceError(`input '${name}': ${needs}, got ${data.length}`);
  }
  const bytes = datatype === 'BYTES' ? encodeTexts(name, data) : encodeNumbers(name, data, datatype);
  return { name, datatype, shape, data: bytes };
}

type NumberArray = InstanceType<(typeof ARRAYS)[keyof typeof ARRAYS]>;

const ARRAYS = {
  BOOL: Uint8Array,
  UINT8: Uint8Array,
  UINT16: Uint16Array,
  UINT32: Uint32Array,
  UINT64: BigUint64Array,
  INT8: Int8Array,
  INT16: Int16Array,
  INT32: Int32Array,
  INT64: BigInt64Array,
  FP16: Uint16Array,
  FP32: Float32Array,
  FP64: Float64Array,
  BF16: Uint16Array,
} as const;

function encodeNumbers(name: string, data: InputTensor['data'], datatype: Exclude<Datatype, 'BYTES'>): Uint8Array {
  const type = ARRAYS[datatype];
  if (ArrayBuffer.isView(data)) {
    if (data instanceof type) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    throw new MillraceError(`input '${name}': ${datatype} takes a ${type.name}, got a ${data.constructor.name}`);
  }
  const array: NumberArray = new type(data.length);
  for (const [index, value] of data.entries()) {
    const element = elementOf(value, datatype);
    if (element === undefined) {
      throw new MillraceError(`input '${name}', element ${index}: ${datatype} cannot hold ${shown(value)}`);
    }
    (array as { [at: number]: number | bigint })[index] = element; // of the kind that the array holds
  }
  return new Uint8Array(array.buffer);
}

const UNSIGNED = new Set<Datatype>(['UINT8', 'UINT16', 'UINT32', 'UINT64']);

/** Undefined for what the datatype cannot hold: a typed array would wrap it around without a word. */
function elementOf(value: unknown, datatype: Datatype): number | bigint | undefined {
  if (datatype === 'BOOL') return typeof value === 'boolean' || value === 0 || value === 1 ? Number(value) : undefined;
  if (datatype === 'FP16' || datatype === 'BF16') return undefined; // numbers would be taken for their bits
  if (datatype === 'FP32' || datatype === 'FP64') {
    if (typeof value !== 'number') return undefined;
    return datatype === 'FP32' && Number.isFinite(value) && !Number.isFinite(Math.fround(value)) ? undefined : value;
  }
  if (typeof value !== 'bigint' && !Number.isSafeInteger(value)) return undefined;
  const whole = BigInt(value as bigint | number); // one of the two, by the line above
  const bits = BigInt(byteSizeOf(datatype) * 8);
  const low = UNSIGNED.has(datatype) ? 0n : -(1n << (bits - 1n));
  const high = UNSIGNED.has(datatype) ? (1n << bits) - 1n : (1n << (bits - 1n)) - 1n;
  if (whole < low || whole > high) return undefined;
  return datatype === 'INT64' || datatype === 'UINT64' ? whole : Number(whole);
}

/** Each element is its length as 4 bytes, little-endian, and then its bytes. */
function encodeTexts(name: string, data: InputTensor['data']): Uint8Array {
  const encoder = new TextEncoder();
  const elements = Array.from<unknown, Uint8Array>(data, (value, index) => {
    if (typeof value === 'string') return encoder.encode(value);
    if (value instanceof Uint8Array) return value;
    throw new MillraceError(`input '${name}', element ${index}: BYTES takes texts or bytes, got ${shown(value)}`);
  });
  const bytes = new Uint8Array(elements.reduce((sum, { byteLength }) => sum + 4 + byteLength, 0));
  const view = new DataView(bytes.buffer);
  let offset = 0;
  for (const element of elements) {
    view.setUint32(offset, element.byteLength, true);
    bytes.set(element, offset + 4);
    offset += 4 + element.byteLength;
  }
  return bytes;
}

function shown(value: unknown): string {
  if (typeof value === 'bigint') return `${value}n`;
  return value === undefined ? 'nothing' : JSON.stringify(value);
}
