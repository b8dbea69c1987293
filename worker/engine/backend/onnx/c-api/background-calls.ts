import { Worker } from 'node:worker_threads';
import type { NativeFunction } from './library.ts';
import type { Pointer } from './functions.ts';
import { STACK_BYTES } from './koffi-settings.ts';

/**
 * Of the threads, in the units of nice(2): about a tenth of a processor's time where other threads want all of it, and
 * all of it where they do not.
 */
const NICENESS = 10;

/** As many as models are loaded at once; more calls wait. */
const MAX_THREADS = 2;

type Value = Pointer | number | string;
type Result = Pointer | null | undefined;

interface Waiting {
  readonly call: { readonly values: readonly Value[] } & NativeFunction;
  readonly done: (error: Error | null, result: Result) => void;
}

/**
 * Native calls on threads of their own that give way to all others: loading, trying and warming a model takes seconds of
 * work, and on libuv's pool each piece of it could keep a request of another model from a processor for a scheduler's
 * slice, some milliseconds. The threads end with the process, which waits for a call under way.
 */
export class BackgroundCalls {
  readonly #idle: Worker[] = [];
  readonly #busy = new Map<Worker, Waiting>();
  readonly #waiting: Waiting[] = [];

  /** Whether a call was ever made: then there are threads. */
  get started(): boolean {
    return this.#idle.length + this.#busy.size > 0;
  }

  /**
   * The memory behind the addresses has to stay as it is until `done`.
   * @throws Error when the call can never be made, as there is no thread and none can be started; `done` is not called then
   */
  start(native: NativeFunction, values: readonly Value[], done: Waiting['done']): void {
    const call = { address: native.address, result: native.result, args: native.args, values };
    const waiting = { call, done };
    this.#waiting.push(waiting);
    try {
      this.#pump();
    } catch (error) {
      if (this.#busy.size > 0) return; // its turn comes when one of those is over
      this.#waiting.splice(this.#waiting.indexOf(waiting), 1);
      throw error;
    }
  }

  #pump(): void {
    while (this.#waiting.length > 0) {
      if (this.#idle.length === 0 && this.#busy.size >= MAX_THREADS) return;
      const thread = this.#idle.pop() ?? this.#createThread();
      const next = this.#waiting.shift();
      if (!next) return;
      this.#busy.set(thread, next);
      thread.ref();
      thread.postMessage(next.call);
    }
  }

  #createThread(): Worker {
    const workerData = { niceness: NICENESS, stackBytes: STACK_BYTES };
    // No flags of this process: a loader for TypeScript or a coverage tool has no business in there.
    const thread = new Worker(new URL('./background-thread.mjs', import.meta.url), { workerData, execArgv: [] });
    thread.on('message', ({ error, value }: { error?: Error; value?: Result }) => {
      this.#idle.push(thread);
      this.#settle(thread, error ?? null, value);
    });
    thread.on('error', (error) => {
      const at = this.#idle.indexOf(thread);
      if (at >= 0) this.#idle.splice(at, 1);
      this.#settle(thread, error, undefined);
    });
    return thread;
  }

  #settle(thread: Worker, error: Error | null, result: Result): void {
    const waiting = this.#busy.get(thread);
    this.#busy.delete(thread);
    thread.unref();
    waiting?.done(error, result);
    try {
      this.#pump();
    } catch (failure) {
      if (this.#busy.size > 0) return;
      const reason = failure instanceof Error ? failure : new Error(String(failure));
      for (const { done } of this.#waiting.splice(0)) done(reason, undefined);
    }
  }
}
