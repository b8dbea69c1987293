import type { Tensor } from '../tensor/tensor.ts';
import type { Parameters } from './request.ts';

/** Why a batch was released to run. */
export const RELEASE_REASONS = ['full', 'preferred', 'delay', 'idle', 'shape', 'drain', 'direct'] as const;
export type ReleaseReason = (typeof RELEASE_REASONS)[number];

/** Where the time of one request went, in microseconds. The compute parts are those of the whole batch, as in Triton. */
export interface Timings {
  /** From arrival at the engine to the start of its execution. */
  readonly queueUs: number;
  readonly computeInputUs: number;
  readonly computeInferUs: number;
  readonly computeOutputUs: number;
  /** Rows of the execution that this request was part of. */
  readonly batchSize: number;
  /** 1 on exactly one request of each execution and 0 on its companions, so that sums count executions. */
  readonly executions: 0 | 1;
  readonly release: ReleaseReason;
  /** Of models with padding: rows times length of the execution, and how much of that was padding. */
  readonly elements?: number;
  readonly paddedElements?: number;
}

/** What a step of an ensemble did for a request. */
export interface StepRecord {
  readonly model: string;
  readonly version: string;
  readonly rows: number;
  /** From the start of the step to its answer. */
  readonly requestUs: number;
  readonly timings: Timings;
}

export interface InferResponse {
  readonly model: string;
  readonly version: string;
  /** In the order of the model's config; only those that were asked for. */
  readonly outputs: readonly Tensor[];
  readonly parameters: Parameters;
  readonly timings: Timings;
  /** The `identity` of the model that ran, where it has one. */
  readonly identity?: string | undefined;
  /** The steps of an ensemble, those of ensembles inside it too; absent for any other model. */
  readonly steps?: readonly StepRecord[];
  /**
   * Present when tensors are large and nobody but the receiver holds any of this request or response any more: the
   * receiver may call it, once, when the answer is sent, and may then free the request's memory too. Whoever keeps any of
   * the tensors passes on a response without it, and `{ ...response }` is one.
   */
  free?(): void;
}
