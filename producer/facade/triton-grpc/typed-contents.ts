import { BinaryReader, WireType } from '@bufbuild/protobuf/wire';
import { InferError } from '../../../shared/errors.ts';
import { byteSizeOf, type Datatype } from '../../../shared/tensor/datatype.ts';

/** The lists of InferTensorContents by their field number. */
const LIST_NAMES = [
  '',
  'bool_contents',
  'int_contents',
  'int64_contents',
  'uint_contents',
  'uint64_contents',
  'fp32_contents',
  'fp64_contents',
  'bytes_contents',
] as const;

/** The field number of the one list that may hold a datatype's elements; FP16 and BF16 have none. */
const LISTS: Readonly<Record<Datatype, number | undefined>> = {
  BOOL: 1,
  INT8: 2,
  INT16: 2,
  INT32: 2,
  INT64: 3,
  UINT8: 4,
  UINT16: 4,
  UINT32: 4,
  UINT64: 5,
  FP16: undefined,
  FP32: 6,
  FP64: 7,
  BF16: undefined,
  BYTES: 8,
};

/** What elements must be in that share a list with wider ones. */
const RANGES: Partial<Record<Datatype, readonly [min: number, max: number]>> = {
  INT8: [-0x80, 0x7f],
  INT16: [-0x8000, 0x7fff],
  UINT8: [0, 0xff],
  UINT16: [0, 0xffff],
};

/**
 * A tensor's bytes from its typed contents, straight from the wire: the elements are counted before anything is allocated
 * for them, and floats that lie in one piece, which are the same bytes in both forms, are not copied.
 * @param where for messages: "input x"
 * @param contents an encoded InferTensorContents
 * @param maxBytes the most that the elements may take
 * @throws InferError INVALID_ARGUMENT
 */
export function decodeTypedContents(
  where: string,
  datatype: Datatype,
  count: number,
  contents: Uint8Array,
  maxBytes: number,
): Uint8Array {
  const field = LISTS[datatype];
  if (field === undefined) {
    throw invalid(`${where}: ${datatype} has no typed contents, send it in raw_input_contents`);
  }
  try {
    const { elements, byteLength } = measure(where, datatype, field, contents);
    if (elements !== count) throw invalid(`${where}: ${count} elements expected, ${elements} given`);
    if (byteLength > maxBytes) {
      throw invalid(`${where}: ${byteLength} bytes of elements are more than the limit of ${maxBytes} for a request`);
    }
    return decodeElements(where, datatype, field, contents, byteLength);
  } catch (error) {
    if (error instanceof InferError) throw error;
    const problem = error instanceof Error ? error.message : 'unreadable';
    throw new InferError('INVALID_ARGUMENT', `${where}: contents are no InferTensorContents: ${problem}`, {
      cause: error,
    });
  }
}

/** Counts the elements of the list, and refuses contents that have any in another list. */
function measure(where: string, datatype: Datatype, field: number, contents: Uint8Array) {
  const reader = new BinaryReader(contents);
  const size = byteSizeOf(datatype);
  let elements = 0;
  let textBytes = 0;
  while (reader.pos < reader.len) {
    const [found, wireType] = reader.tag();
    if (found !== field) {
      const skipped = reader.skip(wireType, found);
      // A list that is there but empty is written by some clients as a length of zero.
      if (LIST_NAMES[found] === undefined || (skipped.length === 1 && skipped[0] === 0)) continue;
      throw invalid(`${where}: ${datatype} belongs into ${nameOf(field)}, and ${nameOf(found)} is given`);
    }
    if (wireType !== WireType.LengthDelimited) {
      assertElementType(field, wireType);
      reader.skip(wireType, found);
      elements++;
      continue;
    }
    const bytes = reader.bytes();
    if (datatype === 'BYTES') {
      elements++;
      textBytes += bytes.length;
    } else {
      elements += countPacked(field, bytes);
    }
  }
  return { elements, byteLength: datatype === 'BYTES' ? textBytes + 4 * elements : elements * size };
}

function countPacked(field: number, bytes: Uint8Array): number {
  if (field === 6 || field === 7) {
    const size = field === 6 ? 4 : 8;
    if (bytes.length % size !== 0) throw new RangeError(`${nameOf(field)} ends within an element`);
    return bytes.length / size;
  }
  let count = 0;
  // Every varint has exactly one byte without the continuation bit, its last.
  for (const byte of bytes) if (byte < 0x80) count++;
  if ((bytes.at(-1) ?? 0) >= 0x80) throw new RangeError(`${nameOf(field)} ends within an element`);
  return count;
}

function assertElementType(field: number, wireType: WireType): void {
  const expected = field === 6 ? WireType.Bit32 : field === 7 ? WireType.Bit64 : WireType.Varint;
  if (wireType !== expected || field === 8) throw new Error(`${nameOf(field)} has wire type ${wireType}`);
}

function decodeElements(
  where: string,
  datatype: Datatype,
  field: number,
  contents: Uint8Array,
  byteLength: number,
): Uint8Array {
  const reader = new BinaryReader(contents);
  const writer = new ElementWriter(where, datatype, byteLength);
  while (reader.pos < reader.len) {
    const [found, wireType] = reader.tag();
    if (found !== field) {
      reader.skip(wireType, found);
    } else if (datatype === 'BYTES') {
      writer.addText(reader.bytes());
    } else if (field === 6 || field === 7) {
      const bytes = wireType === WireType.LengthDelimited ? reader.bytes() : reader.skip(wireType, found);
      if (bytes.length === byteLength) return bytes;
      writer.addBytes(bytes);
    } else if (wireType === WireType.LengthDelimited) {
      const end = reader.uint32() + reader.pos;
      while (reader.pos < end) writer.addInteger(field, reader);
    } else {
      writer.addInteger(field, reader);
    }
  }
  return writer.data;
}

class ElementWriter {
  readonly data: Buffer;
  readonly #where: string;
  readonly #datatype: Datatype;
  readonly #range: readonly [min: number, max: number] | undefined;
  #offset = 0;

  constructor(where: string, datatype: Datatype, byteLength: number) {
    this.data = Buffer.allocUnsafe(byteLength);
    this.#where = where;
    this.#datatype = datatype;
    this.#range = RANGES[datatype];
  }

  addText(text: Uint8Array): void {
    this.data.writeUInt32LE(text.length, this.#offset);
    this.data.set(text, this.#offset + 4);
    this.#offset += 4 + text.length;
  }

  addBytes(bytes: Uint8Array): void {
    this.data.set(bytes, this.#offset);
    this.#offset += bytes.length;
  }

  addInteger(field: number, reader: BinaryReader): void {
    if (field === 3 || field === 5) {
      const value = BigInt(field === 3 ? reader.int64() : reader.uint64());
      this.data.writeBigUInt64LE(BigInt.asUintN(64, value), this.#offset);
      this.#offset += 8;
      return;
    }
    if (field === 1) {
      this.data[this.#offset++] = reader.bool() ? 1 : 0;
      return;
    }
    this.#addNarrow(field === 2 ? reader.int32() : reader.uint32());
  }

  #addNarrow(value: number): void {
    if (this.#range && (value < this.#range[0] || value > this.#range[1])) {
      const element = this.#offset / byteSizeOf(this.#datatype);
      const [min, max] = this.#range;
      throw invalid(`${this.#where}: element ${element}: expected an integer from ${min} to ${max}, got ${value}`);
    }
    switch (this.#datatype) {
      case 'INT8':
      case 'UINT8':
        this.data[this.#offset] = value;
        break;
      case 'INT16':
      case 'UINT16':
        this.data[this.#offset] = value;
        this.data[this.#offset + 1] = value >> 8;
        break;
      default:
        this.data.writeInt32LE(value | 0, this.#offset);
    }
    this.#offset += byteSizeOf(this.#datatype);
  }
}

function nameOf(field: number): string {
  return LIST_NAMES[field] ?? `field ${field}`;
}

function invalid(message: string): InferError {
  return new InferError('INVALID_ARGUMENT', message);
}
