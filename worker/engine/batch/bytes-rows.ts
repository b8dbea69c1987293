/**
 * Where `elements` elements of a BYTES tensor end that begin at `start`; -1 when the data ends before. Each element is
 * its length as a little-endian uint32 and then its bytes.
 */
export function bytesEnd(data: Uint8Array, start: number, elements: number): number {
  let at = start;
  for (let i = 0; i < elements; i += 1) {
    const lengthEnd = at + 4;
    if (lengthEnd > data.byteLength) return -1;
    const length =
      ((data[at] ?? 0) | ((data[at + 1] ?? 0) << 8) | ((data[at + 2] ?? 0) << 16) | ((data[at + 3] ?? 0) << 24)) >>> 0;
    at = lengthEnd + length;
    if (at > data.byteLength) return -1;
  }
  return at;
}
