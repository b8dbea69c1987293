import { freeMemory } from '../../../shared/tensor/free-memory.ts';
import { Pieces } from '../../../shared/tensor/pieces.ts';
import type { Tensor } from '../../../shared/tensor/tensor.ts';

/**
 * As `freeMemory`, once a request is answered and nobody looks at it any more.
 * @param body what the client sent, which tensors may be views of
 */
export function freeRequest(inputs: readonly Tensor[], body: Uint8Array | Pieces): void {
  for (const { pieces } of inputs) pieces?.free();
  if (body instanceof Pieces) body.free();
  else freeMemory(body);
}
