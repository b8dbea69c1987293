import type { Tensor } from '../tensor/tensor.ts';

/** Values of KServe request parameters. 64-bit integers beyond 2^53 are bigint. */
export type ParameterValue = string | number | bigint | boolean;
export type Parameters = Readonly<Record<string, ParameterValue>>;

/** One call to one model. Immutable; layers may hold it until the call has settled. */
export interface InferRequest {
  /** The client's own id, echoed in the answer; '' when there was none. */
  readonly id: string;
  readonly model: string;
  /** A version number in decimal, or '' for whatever the version policy serves. */
  readonly version: string;
  readonly inputs: readonly Tensor[];
  /** Names of the outputs that the caller wants; empty means all. */
  readonly outputs: readonly string[];
  readonly parameters: Parameters;
}

export const NO_PARAMETERS: Parameters = Object.freeze({});

/** The rows of a request: its batch dimension, or 1 for a model without one. */
export function rowsOf(batched: boolean, inputs: readonly Tensor[]): number {
  return batched ? (inputs[0]?.shape[0] ?? 1) : 1;
}
