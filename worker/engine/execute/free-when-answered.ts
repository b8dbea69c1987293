import { freeMemory, LARGE_BYTES } from '../../../shared/tensor/free-memory.ts';
import { byteLengthOf, type Tensor } from '../../../shared/tensor/tensor.ts';

/**
 * The `free` of the responses that share the outputs of one run: the last of them to be freed frees the outputs.
 * undefined where nothing is large enough.
 */
export function freeWhenAnswered(
  outputs: readonly Tensor[],
  members: readonly { readonly inputs: readonly Tensor[] }[],
): (() => void) | undefined {
  if (!anyLarge(outputs) && !members.some(({ inputs }) => anyLarge(inputs))) return undefined;
  // A member that is settled already never frees, and the garbage collector does it.
  let left = members.length;
  return () => {
    left -= 1;
    if (left === 0) for (const { data } of outputs) freeMemory(data);
  };
}

/** Whether any of the tensors has memory that is worth to be freed. */
function anyLarge(tensors: readonly Tensor[]): boolean {
  for (const tensor of tensors) if (byteLengthOf(tensor) >= LARGE_BYTES) return true;
  return false;
}
