import type { Tensor } from '../../../shared/tensor/tensor.ts';
import type { FilePipeline } from './file-pipeline.ts';

/** Either the model's input, or the answer for a file that is too small for the model. */
export type PreparedFile =
  | { readonly tensors: readonly Tensor[]; readonly answer: undefined }
  | { readonly tensors: undefined; readonly answer: 'empty' | 'txt' | 'unknown' };

/**
 * Magika's features: the first and the last bytes of the file, white space at the outer ends left out, padded inwards.
 * As in Magika itself, a file of fewer than `minSize` bytes, or with fewer after its white space, never reaches the
 * model: it is "empty", or "txt" when it is UTF-8, or "unknown".
 */
export function prepareFile(bytes: Uint8Array, pipeline: FilePipeline): PreparedFile {
  const { beginSize, endSize, blockSize, padding, minSize } = pipeline;
  if (bytes.length === 0) return { tensors: undefined, answer: 'empty' };
  const block = Math.min(blockSize, bytes.length);
  let from = 0;
  while (from < block && isSpace(bytes[from])) from++;
  if (bytes.length < minSize || Math.min(block - from, beginSize) < minSize)
    return { tensors: undefined, answer: small(bytes, block) };
  let to = bytes.length;
  while (to > bytes.length - block && isSpace(bytes[to - 1])) to--;

  const values = new Int32Array(beginSize + endSize).fill(padding);
  values.set(bytes.subarray(from, Math.min(block, from + beginSize)));
  const end = bytes.subarray(Math.max(bytes.length - block, to - endSize), to);
  values.set(end, values.length - end.length);
  const shape = pipeline.batched ? [1, values.length] : [values.length];
  const data = new Uint8Array(values.buffer);
  return { tensors: [{ name: pipeline.input, datatype: 'INT32', shape, data }], answer: undefined };
}

/** What Python's bytes.strip() takes away. */
function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || (byte !== undefined && byte >= 0x09 && byte <= 0x0d);
}

function small(bytes: Uint8Array, block: number): 'txt' | 'unknown' {
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(bytes.subarray(0, block));
    return 'txt';
  } catch {
    // Not UTF-8: that is the answer.
    return 'unknown';
  }
}
