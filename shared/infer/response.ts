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
}

export interface InferResponse {
  readonly model: string;
  readonly version: string;
  /** In the order of the model's config; only those that were asked for. */
  readonly outputs: readonly Tensor[];
  readonly parameters: Parameters;
  readonly timings: Timings;
}
