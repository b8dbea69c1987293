/** No datatype has larger elements, in bytes. */
const ALIGNMENT = 8;

/**
 * Memory for a body that ends with tensors, such that its end lies at a multiple of eight bytes: tensors whose sizes are
 * multiples of their elements' are then aligned, however long the text in front of them is, and can be run where they lie.
 */
export function alignedBuffer(byteLength: number): Buffer {
  const room = Math.ceil(byteLength / ALIGNMENT) * ALIGNMENT;
  // Node's buffers begin aligned, also those that share a pool.
  return Buffer.allocUnsafe(room).subarray(room - byteLength);
}
