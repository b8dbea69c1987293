import { decodeBytes } from '../../../../../shared/tensor/bytes.ts';
import type { Api } from './api.ts';
import type { Memory, Pointer } from './functions.ts';
import { assertOk } from './status.ts';

const STRING_TYPE = 8;
const LENGTH_BYTES = 4;

/**
 * A value of texts from a BYTES tensor, exact for any bytes; the library holds a copy. Written to `out`.
 * @throws OrtCallError
 */
export function createStringValue(api: Api, shape: Memory, rank: number, data: Uint8Array, out: BigUint64Array): void {
  const { ort } = api;
  assertOk(ort, ort.CreateTensorAsOrtValue(api.allocator, shape, rank, STRING_TYPE, out));
  const value = out[0] ?? 0n;
  const target = new BigUint64Array(1);
  try {
    for (const [index, element] of decodeBytes(data).entries()) {
      assertOk(ort, ort.GetResizedStringTensorElementBuffer(value, index, element.byteLength, target));
      if (element.byteLength > 0) api.copy(target[0] ?? 0n, element, element.byteLength);
    }
  } catch (error) {
    out[0] = 0n;
    ort.ReleaseValue(value);
    throw error;
  }
}

/** The texts of a value as the data of a BYTES tensor. @throws OrtCallError */
export function readStringValue(api: Api, value: Pointer, count: number): Buffer {
  if (count === 0) return Buffer.alloc(0);
  const { ort } = api;
  const total = new BigUint64Array(1);
  assertOk(ort, ort.GetStringTensorDataLength(value, total));
  const byteLength = Number(total[0]);
  // One byte more, so that texts that are all empty still have an address.
  const content = Buffer.allocUnsafe(byteLength + 1);
  const offsets = new BigUint64Array(count);
  assertOk(ort, ort.GetStringTensorContent(value, content, byteLength, offsets, count));
  const data = Buffer.allocUnsafe(byteLength + LENGTH_BYTES * count);
  let position = 0;
  for (let index = 0; index < count; index++) {
    const start = Number(offsets[index]);
    const end = index + 1 < count ? Number(offsets[index + 1]) : byteLength;
    position = data.writeUInt32LE(end - start, position);
    content.copy(data, position, start, end);
    position += end - start;
  }
  return data;
}
