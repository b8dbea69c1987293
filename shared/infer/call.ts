import type { InferError } from '../errors.ts';

/**
 * What belongs to a call and not to the request: when it must be over and whether anybody still waits. A class of two
 * fields and one listener instead of an AbortController, because it is made once per request on the hot path.
 */
export class Call {
  /** Unique within the pool; in every log line and error of the call. */
  readonly id: string;
  /** On the clock of `performance.now()` of this process, in ms; Infinity for none. */
  readonly deadlineMs: number;
  /** 0 = the model's default level; 1 is the most urgent, as in Triton. */
  readonly priority: number;
  /** When the request arrived, on the clock of `performance.now()`, in ms. */
  readonly arrivalMs: number;
  /** Whose key came with the request; '' where requests need none. Set by whoever opens the call. */
  tenant = '';
  readonly #parent: Call | undefined;
  #started = false;
  #error: InferError | undefined;
  #listeners: ((error: InferError) => void)[] | undefined;

  constructor(id: string, arrivalMs: number, deadlineMs: number, priority = 0, parent?: Call) {
    this.#parent = parent;
    this.id = id;
    this.arrivalMs = arrivalMs;
    this.deadlineMs = deadlineMs;
    this.priority = priority;
  }

  /** A call for a part of this one's work, with its deadline and priority. When the part starts, the whole has started. */
  part(arrivalMs: number): Call {
    const part = new Call(this.id, arrivalMs, this.deadlineMs, this.priority, this);
    part.tenant = this.tenant;
    return part;
  }

  /** Set by the engine when the call's batch begins to run. What has not started can still go to another worker. */
  get started(): boolean {
    return this.#started;
  }

  set started(started: boolean) {
    this.#started = started;
    if (this.#parent) this.#parent.started = started;
  }

  /** Why nobody waits any more (CANCELLED or DEADLINE_EXCEEDED); undefined while somebody does. */
  get error(): InferError | undefined {
    return this.#error;
  }

  /** Ends the call for its waiters. Later calls change nothing. */
  cancel(error: InferError): void {
    if (this.#error) return;
    this.#error = error;
    const listeners = this.#listeners;
    this.#listeners = undefined;
    if (listeners) for (const listener of listeners) listener(error);
  }

  /** Calls back once when the call is cancelled; at once if it already is. */
  onCancel(listener: (error: InferError) => void): void {
    if (this.#error) listener(this.#error);
    else (this.#listeners ??= []).push(listener);
  }
}
