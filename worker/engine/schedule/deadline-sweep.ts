import { InferError } from '../../../shared/errors.ts';
import type { Call } from '../../../shared/infer/call.ts';
import { ChurnSet } from '../../../shared/runtime/churn.ts';
import type { Clock } from '../../../shared/runtime/clock.ts';

/** How late a deadline may be noticed. */
const SWEEP_MS = 20;

/**
 * Cancels calls whose deadline has passed. One timer for all calls of the engine, which runs only while there are any;
 * a sweep over thousands of open calls takes less than the timers of as many requests would.
 */
export class DeadlineSweep {
  readonly #clock: Clock;
  readonly #calls = new ChurnSet<Call>();
  #cancelTimer: (() => void) | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  watch(call: Call): void {
    if (call.deadlineMs === Infinity) return;
    this.#calls.add(call);
    this.#cancelTimer ??= this.#clock.setTimer(() => this.#sweep(), SWEEP_MS);
  }

  forget(call: Call): void {
    this.#calls.delete(call);
  }

  close(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    this.#calls.clear();
  }

  #sweep(): void {
    this.#cancelTimer = undefined;
    const nowMs = this.#clock.now();
    for (const call of this.#calls) {
      if (call.deadlineMs > nowMs) continue;
      this.#calls.delete(call);
      call.cancel(deadlineError(call));
    }
    if (this.#calls.size > 0) this.#cancelTimer ??= this.#clock.setTimer(() => this.#sweep(), SWEEP_MS);
  }
}

export function deadlineError(call: Call): InferError {
  const allowedMs = Math.max(0, Math.round(call.deadlineMs - call.arrivalMs));
  return new InferError('DEADLINE_EXCEEDED', `deadline exceeded: no result within ${allowedMs} ms`);
}
