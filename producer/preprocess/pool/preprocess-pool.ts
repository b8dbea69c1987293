import { Piscina } from 'piscina';
import { InferError } from '../../../shared/errors.ts';
import type { Call } from '../../../shared/infer/call.ts';
import type { Clock } from '../../../shared/runtime/clock.ts';
import type { ThreadReply, ThreadTask } from './messages.ts';
import { threadEntry } from './thread-entry.ts';

export interface PoolSettings {
  readonly threads: number;
  /** Tasks that may wait for a thread; more are refused. */
  readonly maxWaiting: number;
  /** Bytes of bodies that may wait for a thread. */
  readonly maxWaitingBytes: number;
  /** Tasks from this many bytes on never take all threads at once, so that small ones keep getting through. */
  readonly largeBytes: number;
}

interface Entry {
  readonly task: ThreadTask;
  readonly byteLength: number;
  readonly order: number;
  readonly resolve: (reply: ThreadReply) => void;
  readonly reject: (error: Error) => void;
  settled: boolean;
}

/**
 * Threads that decode, resize and tokenize. Tasks wait in our own two queues (small and large, each first come first
 * served) instead of Piscina's, so that a caller who has gone is dropped before its task starts. A task that has
 * started is never aborted: that would end a thread inside native code, and with it the process.
 */
export class PreprocessPool {
  readonly #settings: PoolSettings;
  readonly #clock: Clock;
  readonly #piscina: Piscina<ThreadTask, ThreadReply>;
  readonly #small: Entry[] = [];
  readonly #large: Entry[] = [];
  readonly #idle: (() => void)[] = [];
  #order = 0;
  #waiting = 0;
  #waitingBytes = 0;
  #running = 0;
  #runningLarge = 0;
  #closed = false;

  constructor(settings: PoolSettings, clock: Clock) {
    this.#settings = settings;
    this.#clock = clock;
    this.#piscina = new Piscina<ThreadTask, ThreadReply>({
      filename: threadEntry(import.meta.url, './preprocess-thread'),
      minThreads: settings.threads,
      maxThreads: settings.threads,
      // The threads wait for native work inside a task, which a thread asleep in Atomics.wait would not hear of.
      atomics: 'disabled',
    });
  }

  get waiting(): number {
    return this.#waiting;
  }

  /**
   * Runs a task in a thread. Settles when it is done, or as soon as the call is cancelled or past its deadline.
   * @param byteLength of the body that the task holds
   */
  run(task: ThreadTask, byteLength: number, call: Call): Promise<ThreadReply> {
    const refusal = this.#refusal(byteLength, call);
    if (refusal) return Promise.reject(refusal);
    return new Promise((resolve, reject) => {
      const entry: Entry = { task, byteLength, order: this.#order++, resolve, reject, settled: false };
      const leftMs = call.deadlineMs - this.#clock.now();
      const stopTimer =
        leftMs < MAX_TIMER_MS ? this.#clock.setTimer(() => call.cancel(deadlineError(call)), leftMs) : undefined;
      const settle = (end: () => void): void => {
        if (entry.settled) return;
        entry.settled = true;
        stopTimer?.();
        end();
      };
      const queued: Entry = {
        ...entry,
        resolve: (reply) => settle(() => resolve(reply)),
        reject: (error) => settle(() => reject(error)),
      };
      call.onCancel((error) => this.#drop(queued, error));
      this.#enqueue(queued);
    });
  }
}
