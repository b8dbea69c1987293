import { InferError } from '../../../shared/errors.ts';
import { assertByteLength } from '../../../shared/tensor/byte-length.ts';
import { byteSizeOf, type Datatype } from '../../../shared/tensor/datatype.ts';
import { shownText } from '../../../shared/tensor/text.ts';
import type { RegionHold, RegionRange, SharedMemory } from '../../service/shared-memory.ts';
import type { OutputWish } from './output-wish.ts';

/**
 * A copy of an input's bytes out of shared memory. The size of BYTES is that of the range, their layout is checked with
 * the request.
 * @param count the number of elements of `shape`
 * @param alreadyRead bytes that earlier inputs of the same request have read from shared memory
 * @throws InferError INVALID_ARGUMENT, NOT_FOUND for an unknown region, RESOURCE_EXHAUSTED.
 */
export function readRegionTensor(
  memory: SharedMemory,
  where: string,
  range: RegionRange,
  datatype: Datatype,
  shape: readonly number[],
  count: number,
  alreadyRead: number,
): Uint8Array {
  if (byteSizeOf(datatype) > 0) assertByteLength(where, datatype, shape, count, range.byteLength);
  return memory.read(where, range, alreadyRead);
}

/**
 * Takes hold of the regions that outputs go to, so that a wrong one is refused before the model runs; undefined when
 * none does. Whoever gets a hold releases it, whatever becomes of the request.
 * @throws InferError NOT_FOUND for an unknown region, INVALID_ARGUMENT for a range beyond it.
 */
export function holdOutputRegions(memory: SharedMemory, wishes: readonly OutputWish[]): RegionHold | undefined {
  if (!wishes.some(({ region }) => region !== undefined)) return undefined;
  return memory.hold(
    wishes.flatMap(({ name, region }) => (region ? [{ where: outputLabel(name), range: region }] : [])),
  );
}

/** @throws InferError INVALID_ARGUMENT when an output that goes to shared memory is to be classified as well. */
export function assertNotClassified(where: string, classes: number): void {
  if (classes === 0) return;
  throw new InferError('INVALID_ARGUMENT', `${where}: both shared memory and classification are asked for`);
}

/** An output as messages name it. */
export function outputLabel(name: string): string {
  return `output ${shownText(name)}`;
}
