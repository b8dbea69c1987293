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
  readonly #waiting: Waiting[] = [];
  #threads = 0;

  /** The memory behind the addresses has to stay as it is until `done`. */
  start(native: NativeFunction, values: readonly Value[], done: Waiting['done']): void {
    const call = { address: native.address, result: native.result, args: native.args, values };
    this.#waiting.push({ call, done });
    this.#pump();
  }

  #pump(): void {
    if (this.#idle.length === 0 && this.#threads < MAX_THREADS && this.#waiting.length > 0) this.#addThread();
    const thread = this.#idle.pop();
    if (!thread) return;
    const next = this.#waiting.shift();
    if (next) this.#call(thread, next);
    else this.#idle.push(thread);
  }

  #addThread(): void {
    this.#threads += 1;
    const workerData = { niceness: NICENESS, stackBytes: STACK_BYTES };
    // No flags of this process: a loader for TypeScript or a coverage tool has no business in there.
    const thread = new Worker(new URL('./background-thread.mjs', import.meta.url), { workerData, execArgv: [] });
    thread.unref();
    this.#idle.push(thread);
  }

  #call(thread: Worker, { call, done }: Waiting): void {
    const settle = (error: Error | null, result: Result, usable: boolean): void => {
      thread.off('message', onMessage);
      thread.off('error', onError);
      thread.unref();
      if (usable) this.#idle.push(thread);
      else this.#threads -= 1;
      done(error, result);
      this.#pump();
    };
    const onMessage = ({ error, value }: { error?: Error; value?: Result }): void => settle(error ?? null, value, true);
    const onError = (error: Error): void => settle(error, undefined, false);
    thread.ref();
    thread.on('message', onMessage);
    thread.on('error', onError);
    thread.postMessage(call);
  }
}
