import type { Datatype } from '../tensor/datatype.ts';

/** An input or output as the model file itself declares it. */
export interface GraphTensor {
  readonly name: string;
  /** undefined when KServe v2 has no name for the type; `typeName` then says what it is. */
  readonly datatype: Datatype | undefined;
  readonly typeName: string;
  /** -1 for dynamic dimensions. */
  readonly shape: readonly number[];
  /** Symbolic dimension names, '' where there is none. Same length as `shape`. */
  readonly symbols: readonly string[];
}
