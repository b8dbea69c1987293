/** Smaller memory is left to the garbage collector. */
export const LARGE_BYTES = 64 * 1024;

/** What a buffer of one owner may have beside its data: room for alignment, the head of a frame. */
const SLACK_BYTES = 16;

/**
 * Gives large memory back now rather than when the garbage collector gets to it: buffers that outlive two of its short
 * rounds are found by its long one only, and it begins one for every 64 MB of them. The data is gone for everybody, its
 * length is 0 from now on. Does nothing to a view of a part of some memory, which others may use too.
 */
export function freeMemory({ buffer, byteLength }: Uint8Array): void {
  if (byteLength < LARGE_BYTES || buffer.byteLength - byteLength > SLACK_BYTES) return;
  if (!(buffer instanceof ArrayBuffer)) return;
  try {
    structuredClone(null, { transfer: [buffer] });
  } catch {
    // Memory that came from native code may refuse to be moved; then the garbage collector frees it.
  }
}
