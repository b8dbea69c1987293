import { InferError } from '../../../shared/errors.ts';
import { shownText } from '../../../shared/tensor/text.ts';
import type { RegionRange } from '../../service/shared-memory.ts';

/** How one output is to come back. */
export interface OutputWish {
  readonly name: string;
  /** As raw bytes rather than JSON; of no meaning over gRPC, where every output is raw. */
  readonly binary: boolean;
  /** How many best classes instead of the tensor; 0 for the tensor itself. */
  readonly classes: number;
  /** Where the bytes are to be written instead of the answer; undefined for the answer. */
  readonly region?: RegionRange | undefined;
}

/** All outputs, as the protocol's default has them. */
export const NO_WISHES: readonly OutputWish[] = Object.freeze([]);

/** @throws InferError INVALID_ARGUMENT for an output that is listed twice */
export function assertDistinct(wishes: readonly OutputWish[]): void {
  const names = new Set<string>();
  for (const { name } of wishes) {
    if (names.has(name)) throw new InferError('INVALID_ARGUMENT', `output ${shownText(name)} is listed twice`);
    names.add(name);
  }
}
