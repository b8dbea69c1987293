import { InferError } from '../../../shared/errors.ts';
import { shownText } from '../../../shared/tensor/text.ts';
import type { SharedMemory } from '../../service/shared-memory.ts';

/**
 * CUDA shared memory, of which this server has none: tensors go to a model from the machine's memory.
 * @throws InferError UNIMPLEMENTED, always.
 */
export function refuseCudaRegister(memory: SharedMemory, name: string): never {
  memory.assertEnabled();
  throw new InferError(
    'UNIMPLEMENTED',
    `CUDA shared memory region ${shownText(name)}: the server cannot open CUDA memory of other processes, use system shared memory`,
  );
}

/** Nothing can be registered, so nothing is left to do: perf_analyzer calls this before it begins and at its end. */
export function unregisterCuda(memory: SharedMemory): void {
  memory.assertEnabled();
}

/**
 * @param name one region, or undefined for all
 * @throws InferError NOT_FOUND for any name.
 */
export function assertNoCudaRegion(name: string | undefined): void {
  if (name === undefined) return;
  throw new InferError('NOT_FOUND', `CUDA shared memory region ${shownText(name)} is not registered`);
}
