import type { Call } from '../../../shared/infer/call.ts';
import type { ModelStats } from '../../../shared/infer/model-stats.ts';
import type { InferRequest } from '../../../shared/infer/request.ts';
import type { InferResponse } from '../../../shared/infer/response.ts';
import type { Clock } from '../../../shared/runtime/clock.ts';
import type { Logger } from '../../../shared/runtime/logger.ts';
import type { ModelPlan } from '../batch/model-plan.ts';
import type { RunGate } from '../execute/run-slots.ts';
import type { ModelInstance } from '../instance/instance.ts';
import type { DeadlineSweep } from './deadline-sweep.ts';

/** Decides when, and together with whom, a request of one model version runs. */
export interface Scheduler {
  /**
   * Settles with the response, or rejects with an InferError: at once when the request does not fit the model
   * (INVALID_ARGUMENT), the queue is full (RESOURCE_EXHAUSTED, or UNAVAILABLE by the model's queue policy) or the
   * scheduler is closing (UNAVAILABLE), and as soon as the call is cancelled or the policy's time to wait is over. The
   * request belongs to the scheduler until its run is over, which may be later.
   */
  enqueue(request: InferRequest, call: Call): Promise<InferResponse>;
  /** Requests that wait and do not run yet. */
  pending(): number;
  /** Requests taken in and not answered yet, whether they wait or run. */
  open(): number;
  /** Sequences that live here; absent where requests belong to none. */
  sequences?(): number;
  /** How many more could live here at once. */
  freePlaces?(): number;
  /**
   * Takes nothing more, runs what waits for at most `graceMs`, fails the rest with UNAVAILABLE, closes the instances.
   * False when a run did not stop and its instance is still in use.
   */
  close(graceMs: number): Promise<boolean>;
}

/** What any scheduler of a model version needs. */
export interface SchedulerOptions {
  readonly plan: ModelPlan;
  /** Closed by the scheduler. */
  readonly instances: readonly ModelInstance[];
  readonly stats: ModelStats;
  /** Most requests that may wait. */
  readonly maxQueueSize: number;
  /** Rows that a run may have, ascending, where new sizes are dear; it is filled up to one of them. Absent for any. */
  readonly sizes?: readonly number[] | undefined;
  /** Answers leave in the order in which their requests began to run. */
  readonly preserveOrdering: boolean;
  /** Shared by all models of the engine. */
  readonly slots: RunGate;
  /** What an instance takes for each run instead of a slot, where runs are limited by instance. */
  readonly gates?: ReadonlyMap<ModelInstance, RunGate> | undefined;
  /** Shared by all models of the engine. */
  readonly deadlines: DeadlineSweep;
  readonly clock: Clock;
  /** Calls back when all that arrives together has arrived. Default `queueMicrotask`: at the end of this turn. */
  readonly defer?: (callback: () => void) => void;
  readonly logger: Logger;
}
