import type { ReadyModel } from '../model/ready-model.ts';
import type { Call } from './call.ts';
import type { InferRequest } from './request.ts';
import type { InferResponse } from './response.ts';

/**
 * The one signature that runs through everything. It always settles: with a response, or with an InferError, at the
 * latest when the call is cancelled (the deadline cancels it). The request belongs to the callee until then.
 */
export type InferFn = (request: InferRequest, call: Call) => Promise<InferResponse>;

/** A model version as the repository index shows it. */
export interface ModelState {
  readonly name: string;
  /** Absent for a folder from which no version could be derived. */
  readonly version?: string;
  readonly state: 'READY' | 'UNAVAILABLE' | 'LOADING' | 'UNLOADING';
  /** Why it is not READY; '' when it is. */
  readonly reason: string;
}

/** Which models can be called. In `serve` the engine answers, in `producer` the directory in Redis. */
export interface ModelCatalog {
  /**
   * The version that a request for `name` and `version` ('' = by policy) runs on.
   * @throws InferError NOT_FOUND for an unknown model or version, UNAVAILABLE for a known one that is not ready.
   */
  resolve(name: string, version: string): ReadyModel;
  /** All known model versions with their state, by name and then by version number. */
  list(): readonly ModelState[];
  /** Whether every known model is ready (a model that was unloaded on purpose does not count). */
  ready(): boolean;
}

/** Carries requests to an engine, in this process or behind the queue. */
export interface Dispatcher {
  readonly catalog: ModelCatalog;
  /** Refuses what does not fit the model (validate-request.ts) without counting it. */
  readonly infer: InferFn;
  /** Whether requests can be carried now; the reason when not. */
  ready(): { ok: true } | { ok: false; reason: string };
  /** Waiting requests for a model version, for the pending gauge. */
  pending(model: string, version: string): number;
  /** Stops taking requests, lets those in hand end (at most `graceMs`), releases everything. */
  close(graceMs: number): Promise<void>;
}
