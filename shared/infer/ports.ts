import type { ReadyModel } from '../model/ready-model.ts';
import type { BatchingReport } from './batching-report.ts';
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
  /** UNKNOWN for a folder that nobody has asked to load yet. */
  readonly state: 'READY' | 'UNAVAILABLE' | 'LOADING' | 'UNLOADING' | 'UNKNOWN';
  /**
   * Why it is not READY; for a READY one why its last reload failed, or what of it runs on the CPU where a GPU was meant;
   * '' without either.
   */
  readonly reason: string;
  /** How long the load of a READY version took. */
  readonly loadSeconds?: number;
  /** Of a READY version that batches. */
  readonly batching?: BatchingReport;
  /** Set for a model that does not serve and is loaded when a request comes for it. */
  readonly wakeable?: boolean;
  /** How many more sequences a READY version has places for; absent for a model without them. */
  readonly freePlaces?: number;
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
  /** Whether every model that was to be loaded is ready; one that was unloaded on purpose does not count. */
  ready(): boolean;
}

/** The reason of a version that was unloaded on purpose, as Triton has it. */
export const UNLOADED = 'unloaded';

/** What a load may bring along instead of what lies in the repository. */
export interface ModelOverride {
  /** A model config as JSON text, which takes the place of config.pbtxt. */
  readonly config?: string;
  /** By path inside the model's folder (`1/model.onnx`); then the model consists of these files alone. Needs `config`. */
  readonly files?: ReadonlyMap<string, Uint8Array>;
}

/** Loads and unloads models while the server runs. */
export interface ModelControl {
  /**
   * Resolves when the model serves: loaded, or reloaded with what has changed. A load that changes nothing is a success. An
   * ensemble's members are loaded with it. When a reload fails, what served before serves on.
   * @throws InferError NOT_FOUND for a name that no repository has, INVALID_ARGUMENT with the reason why it cannot be loaded
   * or for an override that is wrong, UNAVAILABLE where models cannot be controlled.
   */
  load(model: string, override?: ModelOverride): Promise<void>;
  /**
   * Resolves when the model takes no more requests; those in hand are answered. Unknown models are a success.
   * @param dependents of an ensemble: unload its members too, unless they were loaded by name
   * @throws InferError UNAVAILABLE where models cannot be controlled.
   */
  unload(model: string, dependents?: boolean): Promise<void>;
}

/** Carries requests to an engine, in this process or behind the queue. */
export interface Dispatcher {
  readonly catalog: ModelCatalog;
  readonly control: ModelControl;
  /**
   * Has a model loaded that a request has come for, where models are loaded on demand. Undefined when there is nothing to
   * wait for; else it resolves when the model serves or cannot, which the catalog says.
   */
  wake(model: string): Promise<void> | undefined;
  /** Refuses what does not fit the model (validate-request.ts) without counting it. */
  readonly infer: InferFn;
  /** Whether requests can be carried now; the reason when not. */
  ready(): { ok: true } | { ok: false; reason: string };
  /** Waiting requests for a model version, for the pending gauge. */
  pending(model: string, version: string): number;
  /** Stops taking requests, lets those in hand end (at most `graceMs`), releases everything. */
  close(graceMs: number): Promise<void>;
}
