import { InferError } from '../../../shared/errors.ts';
import type { Call } from '../../../shared/infer/call.ts';
import type { Clock } from '../../../shared/runtime/clock.ts';
import { Pace } from '../../service/pace.ts';
import type { ThreadReply, ThreadTask } from './messages.ts';
import type { Threads } from './threads.ts';

export interface PoolSettings {
  /** Tasks that may wait for a thread; more are refused. */
  readonly maxWaiting: number;
  /** Bytes of tasks that may wait for a thread. */
  readonly maxWaitingBytes: number;
  /** Tasks from this many bytes on never take all threads at once, so that small ones keep getting through. */
  readonly largeBytes: number;
}

interface Entry {
  readonly task: ThreadTask;
  readonly byteLength: number;
  /** Of arrival. */
  readonly order: number;
  readonly resolve: (reply: ThreadReply) => void;
  readonly reject: (error: InferError) => void;
  stopTimer: () => void;
  /** `left`: the caller has its answer; a thread may still be busy with the task. */
  state: 'waiting' | 'running' | 'left';
}

/** The longest time that setTimeout can count, in ms. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/**
 * Threads that decode, resize and tokenize. Tasks wait in our own two queues (small and large, each first come first
 * served) instead of Piscina's, so that a caller who has gone is dropped before its task starts. A task that has
 * started is never aborted: that would end a thread inside native code, and with it the process.
 */
export class PreprocessPool {
  readonly #settings: PoolSettings;
  readonly #threads: Threads;
  readonly #clock: Clock;
  readonly #pace: Pace;
  readonly #small: Entry[] = [];
  readonly #large: Entry[] = [];
  #arrivals = 0;
  #waitingBytes = 0;
  #running = 0;
  #runningLarge = 0;
  #whenIdle: (() => void) | undefined;
  #closed = false;

  /** The threads belong to the pool from now on. */
  constructor(settings: PoolSettings, threads: Threads, clock: Clock) {
    this.#settings = settings;
    this.#threads = threads;
    this.#clock = clock;
    this.#pace = new Pace(clock);
  }

  /** Tasks that wait for a thread. */
  get waiting(): number {
    return this.#small.length + this.#large.length;
  }

  /** Starts the threads before the first task. */
  start(): void {
    if (!this.#closed) this.#threads.start();
  }

  /**
   * Runs a task in a thread. Settles when it is done, or as soon as the call is cancelled or past its deadline.
   * @param byteLength what the task holds in memory, about
   */
  run(task: ThreadTask, byteLength: number, call: Call): Promise<ThreadReply> {
    const leftMs = call.deadlineMs - this.#clock.now();
    if (leftMs <= 0) call.cancel(deadlineError(call));
    const refusal = call.error ?? this.#refusal(byteLength);
    if (refusal) return Promise.reject(refusal);
    return new Promise((resolve, reject) => {
      const entry: Entry = { task, byteLength, order: this.#arrivals++, resolve, reject, stopTimer, state: 'waiting' };
      this.#queueOf(entry).push(entry);
      this.#waitingBytes += byteLength;
      if (leftMs < MAX_TIMER_MS) {
        entry.stopTimer = this.#clock.setTimer(() => call.cancel(deadlineError(call)), leftMs);
      }
      call.onCancel((error) => this.#leave(entry, error));
      this.#startNext();
    });
  }

  /** Refuses new tasks, lets the others end (each has a deadline), then ends the threads, which are idle by then. */
  async close(): Promise<void> {
    this.#closed = true;
    if (this.#running > 0 || this.waiting > 0) {
      await new Promise<void>((resolve) => {
        this.#whenIdle = resolve;
      });
    }
    await this.#threads.close();
  }

  #refusal(byteLength: number): InferError | undefined {
    const { maxWaiting, maxWaitingBytes } = this.#settings;
    if (this.#closed) return new InferError('UNAVAILABLE', 'the server is shutting down');
    if (this.waiting >= maxWaiting) {
      return this.#busy(`${this.waiting} inputs wait to be preprocessed`);
    }
    // A task alone in the queue may be as large as the limits on bodies allow.
    if (this.waiting > 0 && this.#waitingBytes + byteLength > maxWaitingBytes) {
      return this.#busy(`${this.#waitingBytes} of ${maxWaitingBytes} bytes wait to be preprocessed`);
    }
    return undefined;
  }

  #busy(what: string): InferError {
    const retryAfterMs = this.#pace.retryAfterMs(1);
    return new InferError('RESOURCE_EXHAUSTED', `${what}; try again later`, { retryAfterMs });
  }

  #queueOf(entry: Entry): Entry[] {
    return this.#isLarge(entry) ? this.#large : this.#small;
  }

  #isLarge(entry: Entry): boolean {
    return entry.byteLength >= this.#settings.largeBytes;
  }

  #startNext(): void {
    while (this.#running < this.#threads.count) {
      const entry = this.#takeNext();
      if (!entry) return;
      this.#start(entry);
    }
  }

  /** The one that came first, but large ones only while a thread stays free for small ones. */
  #takeNext(): Entry | undefined {
    const small = this.#small[0];
    const large = this.#runningLarge < Math.max(1, this.#threads.count - 1) ? this.#large[0] : undefined;
    if (large && (!small || large.order < small.order)) return this.#large.shift();
    return this.#small.shift();
  }

  #start(entry: Entry): void {
    const large = this.#isLarge(entry);
    entry.state = 'running';
    this.#waitingBytes -= entry.byteLength;
    this.#running++;
    this.#pace.enter('');
    if (large) this.#runningLarge++;
    const settle = (answer: () => void): void => {
      this.#running--;
      this.#pace.leave('', true);
      if (large) this.#runningLarge--;
      if (entry.state === 'running') {
        entry.state = 'left';
        entry.stopTimer();
        answer();
      }
      this.#startNext();
      if (this.#running === 0 && this.waiting === 0) this.#whenIdle?.();
    };
    this.#threads.run(entry.task).then(
      (reply) => settle(() => entry.resolve(reply)),
      (error: unknown) => settle(() => entry.reject(InferError.from(error, 'preprocessing failed'))),
    );
  }

  #leave(entry: Entry, error: InferError): void {
    if (entry.state === 'left') return;
    if (entry.state === 'waiting') {
      const queue = this.#queueOf(entry);
      queue.splice(queue.indexOf(entry), 1);
      this.#waitingBytes -= entry.byteLength;
    }
    entry.state = 'left';
    entry.stopTimer();
    entry.reject(error);
    if (this.#running === 0 && this.waiting === 0) this.#whenIdle?.();
  }
}

function stopTimer(): void {
  // Nothing to stop: the call has no deadline.
}

function deadlineError(call: Call): InferError {
  const timeoutMs = Math.round(call.deadlineMs - call.arrivalMs);
  return new InferError('DEADLINE_EXCEEDED', `the request was not answered within its timeout of ${timeoutMs} ms`);
}
