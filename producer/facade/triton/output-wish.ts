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
