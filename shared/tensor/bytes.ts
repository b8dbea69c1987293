import { InferError } from '../errors.ts';

const LAYOUT = 'each element is its length as 4 bytes, little-endian, and then its bytes';

/**
 * Checks that `data` holds exactly `count` elements of a BYTES tensor.
 * @throws InferError INVALID_ARGUMENT with the element, its offset and the layout that was expected.
 */
export function assertBytesLayout(where: string, data: Uint8Array, count: number): void {
  const end = data.byteLength;
  let offset = 0;
  let element = 0;
  while (offset < end && element < count) {
    if (end - offset < 4) {
      throw layoutError(
        where,
        `element ${element} at byte ${offset}: ${end - offset} bytes left, 4 needed for its length`,
      );
    }
    const length = readLength(data, offset);
    if (length > end - offset - 4) {
      throw layoutError(
        where,
        `element ${element} at byte ${offset}: its length says ${length} bytes, but ${end - offset - 4} follow`,
      );
    }
    offset += 4 + length;
    element++;
  }
  if (element < count) throw layoutError(where, `${count} elements expected, ${element} given`);
  if (offset < end) throw layoutError(where, `${end - offset} bytes left over after ${count} elements`);
}

/** The elements of a BYTES tensor as views of its data. The layout has been checked. */
export function decodeBytes(data: Uint8Array): Uint8Array[] {
  const elements: Uint8Array[] = [];
  for (let offset = 0; offset < data.byteLength;) {
    const start = offset + 4;
    offset = start + readLength(data, offset);
    elements.push(data.subarray(start, offset));
  }
  return elements;
}

/** Lays texts out as a BYTES tensor, as UTF-8. */
export function encodeTexts(texts: readonly string[]): Uint8Array {
  let byteLength = 0;
  for (const text of texts) byteLength += 4 + Buffer.byteLength(text);
  const data = Buffer.allocUnsafe(byteLength);
  let offset = 0;
  for (const text of texts) {
    const written = data.write(text, offset + 4);
    data.writeUInt32LE(written, offset);
    offset += 4 + written;
  }
  return data;
}

/** Lays elements out as a BYTES tensor. */
export function encodeBytes(elements: readonly Uint8Array[]): Uint8Array {
  let byteLength = 0;
  for (const element of elements) byteLength += 4 + element.byteLength;
  const data = Buffer.allocUnsafe(byteLength);
  let offset = 0;
  for (const element of elements) {
    data.writeUInt32LE(element.byteLength, offset);
    data.set(element, offset + 4);
    offset += 4 + element.byteLength;
  }
  return data;
}

/** Reads a little-endian uint32 without needing alignment. The caller has checked that four bytes are there. */
function readLength(data: Uint8Array, offset: number): number {
  return (
    ((data[offset] ?? 0) |
      ((data[offset + 1] ?? 0) << 8) |
      ((data[offset + 2] ?? 0) << 16) |
      ((data[offset + 3] ?? 0) << 24)) >>>
    0
  );
}

function layoutError(where: string, problem: string): InferError {
  return new InferError('INVALID_ARGUMENT', `${where}: ${problem} (BYTES: ${LAYOUT})`);
}
