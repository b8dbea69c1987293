/** Larger buffers are made for one run and left to the garbage collector. */
const KEEP_AT_MOST = 64 * 1024 * 1024;

/**
 * The memory that an instance's batches are written into, one buffer per input, used again for each run. An ArrayBuffer
 * starts at a multiple of 8 or more, so every datatype is aligned.
 */
export class Staging {
  readonly #buffers: Uint8Array<ArrayBuffer>[] = [];

  /** Room of exactly `byteLength` for input `index`, with old content in it. Valid until it is taken again. */
  take(index: number, byteLength: number): Uint8Array<ArrayBuffer> {
    if (byteLength > KEEP_AT_MOST) return new Uint8Array(byteLength);
    let buffer = this.#buffers[index];
    if (!buffer || buffer.byteLength < byteLength) {
      buffer = new Uint8Array(2 ** Math.ceil(Math.log2(Math.max(64, byteLength))));
      this.#buffers[index] = buffer;
    }
    return buffer.byteLength === byteLength ? buffer : buffer.subarray(0, byteLength);
  }
}
