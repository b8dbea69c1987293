import { InferError } from '../errors.ts';
import { assertBytesLayout } from './bytes.ts';
import { byteSizeOf, type Datatype } from './datatype.ts';
import { byteLengthOf, type Tensor } from './tensor.ts';
import { shownShape, shownValue } from './text.ts';

/** More dimensions than any model has; a bound for hostile shapes. */
const MAX_RANK = 64;

/**
 * The number of elements of a shape from outside. Nothing is allocated, and a product too large to be exact is refused
 * rather than rounded.
 * @param where what the shape belongs to, for the message: "input x"
 * @throws InferError INVALID_ARGUMENT for dimensions that are not whole numbers from 0 up, or too many of them.
 */
export function checkedElementCount(where: string, shape: readonly unknown[]): number {
  if (shape.length > MAX_RANK) {
    throw new InferError(
      'INVALID_ARGUMENT',
      `${where}: shape has ${shape.length} dimensions, at most ${MAX_RANK} are allowed`,
    );
  }
  let count = 1;
  let zero = false;
  for (const dim of shape) {
    if (typeof dim !== 'number' || !Number.isSafeInteger(dim) || dim < 0) {
      throw new InferError(
        'INVALID_ARGUMENT',
        `${where}: shape must be an array of integers from 0 up, got ${shownValue(dim)} among its dimensions`,
      );
    }
    if (dim === 0) zero = true;
    else count *= dim;
    // Checked with zeros left out, so that [0, 2^62] is refused too. Times 8 bytes it must stay exact.
    if (count > Number.MAX_SAFE_INTEGER / 8) {
      throw new InferError('INVALID_ARGUMENT', `${where}: shape has too many elements (${count} and more)`);
    }
  }
  return zero ? 0 : count;
}

/**
 * Checks the size of a tensor's bytes against its element count.
 * @throws InferError INVALID_ARGUMENT with both numbers.
 */
export function assertByteLength(
  where: string,
  datatype: Datatype,
  shape: readonly number[],
  count: number,
  byteLength: number,
): void {
  const expected = count * byteSizeOf(datatype);
  if (byteLength === expected) return;
  throw new InferError(
    'INVALID_ARGUMENT',
    `${where}: expected ${expected} bytes, got ${byteLength} (shape ${shownShape(shape)}, datatype ${datatype})`,
  );
}

/**
 * Checks that a tensor's data is what its shape and datatype say: sizes, and the layout of BYTES. Every door through
 * which tensors come in calls this.
 * @throws InferError INVALID_ARGUMENT
 */
export function assertTensorData(where: string, tensor: Tensor): void {
  const count = checkedElementCount(where, tensor.shape);
  if (tensor.pixels) assertByteLength(where, 'UINT8', tensor.shape, count, byteLengthOf(tensor));
  else if (tensor.datatype === 'BYTES') assertBytesLayout(where, tensor.data, count);
  else assertByteLength(where, tensor.datatype, tensor.shape, count, byteLengthOf(tensor));
}
