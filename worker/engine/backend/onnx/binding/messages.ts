import type { Datatype } from '../../../../../shared/tensor/datatype.ts';
import type { LoadOptions } from '../../../instance/instance.ts';

/** What a session thread is started with. */
export interface ThreadOptions extends LoadOptions {
  /** The number of the GPU that it runs on; unless given, the CPU. */
  readonly device?: number;
  /** Whether the session is refused when a node of it would run on the CPU. */
  readonly strict?: boolean;
}

/** A tensor on its way between the threads: the memory of `data` changes hands, nothing is cloned. */
export interface SentTensor {
  readonly name: string;
  readonly datatype: Datatype;
  readonly shape: readonly number[];
  /** The whole of an ArrayBuffer, in KServe's binary form. */
  readonly data: Uint8Array;
}

/** To the session thread. `quit` ends it; nothing may be sent afterwards. */
export type ToThread =
  | { readonly type: 'run'; readonly inputs: readonly SentTensor[]; readonly outputs: readonly SentOutput[] }
  | { readonly type: 'quit' };

export interface SentOutput {
  readonly name: string;
  readonly datatype: Datatype;
}

/** From the session thread: one answer to the start, and one to each `run`. */
export type FromThread =
  | { readonly type: 'loaded'; readonly inputs: readonly BindingValue[]; readonly outputs: readonly BindingValue[] }
  | { readonly type: 'outputs'; readonly outputs: readonly SentTensor[] }
  /** The binding failed; its own text. */
  | { readonly type: 'failed'; readonly text: string }
  /** The input cannot be carried by the binding; a text for the client. */
  | { readonly type: 'refused'; readonly text: string };

/** An input or output as the package describes it. */
export interface BindingValue {
  readonly name: string;
  readonly isTensor: boolean;
  /** The package's name of the element type; only for tensors. */
  readonly type?: string;
  /** Numbers, or the name of a dynamic dimension, '' without one; only for tensors. */
  readonly shape?: readonly (number | string)[];
}
