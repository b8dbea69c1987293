import type { Datatype } from '../../../shared/tensor/datatype.ts';
import { byteSizeOf } from '../../../shared/tensor/datatype.ts';

/** 0.25, 0.5 and 1 in each floating type, as little-endian bytes. */
const FLOATS: Partial<Record<Datatype, readonly (readonly number[])[]>> = {
  FP16: [
    [0x00, 0x34],
    [0x00, 0x38],
    [0x00, 0x3c],
  ],
  BF16: [
    [0x80, 0x3e],
    [0x00, 0x3f],
    [0x80, 0x3f],
  ],
  FP32: [
    [0, 0, 0x80, 0x3e],
    [0, 0, 0x00, 0x3f],
    [0, 0, 0x80, 0x3f],
  ],
  FP64: [
    [0, 0, 0, 0, 0, 0, 0xd0, 0x3f],
    [0, 0, 0, 0, 0, 0, 0xe0, 0x3f],
    [0, 0, 0, 0, 0, 0, 0xf0, 0x3f],
  ],
};

/**
 * Made-up data of one row that most models take: plain fractions, or whole numbers that are 0 or 1, since those may be
 * masks, or places in a small table. Row 0 and row 1 differ.
 */
export function benignRow(datatype: Datatype, elements: number, row: 0 | 1): Uint8Array {
  if (datatype === 'BYTES') return textRow(elements, row);
  const byteSize = byteSizeOf(datatype);
  const data = new Uint8Array(elements * byteSize);
  const floats = FLOATS[datatype];
  for (let i = 0; i < elements; i += 1) {
    if (floats) data.set(floats[(row === 0 ? i : 2 * i + 1) % floats.length] ?? [], i * byteSize);
    else data[i * byteSize] = row === 0 ? 1 : i % 2;
  }
  return data;
}

function textRow(elements: number, row: 0 | 1): Uint8Array {
  const data = new Uint8Array(elements * 5);
  for (let i = 0; i < elements; i += 1) {
    data[i * 5] = 1;
    data[i * 5 + 4] = (row === 0 ? 'a' : 'b').charCodeAt(0);
  }
  return data;
}
