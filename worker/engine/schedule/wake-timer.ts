import type { Clock } from '../../../shared/runtime/clock.ts';

/** Node takes a longer one for 1 ms. */
export const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** One timer that calls back at the earliest of the times it was armed for, perhaps too early, never again after that. */
export class WakeTimer {
  readonly #clock: Clock;
  readonly #callback: () => void;
  readonly #shortestMs: number;
  #atMs = Infinity;
  #cancel: (() => void) | undefined;

  /**
   * `delayMs` is the longest wait that will be asked for. Only where that is below a millisecond are waits below one
   * kept as they are, because the clock spends processor time on them; elsewhere they are rounded up.
   */
  constructor(clock: Clock, delayMs: number, callback: () => void) {
    this.#clock = clock;
    this.#callback = callback;
    this.#shortestMs = delayMs < 1 ? 0 : 1;
  }

  /** A timer that is set already for an earlier time stays: waking too early costs less than setting a timer anew. */
  arm(nowMs: number, waitMs: number): void {
    if (nowMs + waitMs >= this.#atMs) return;
    this.#cancel?.();
    this.#atMs = nowMs + waitMs;
    this.#cancel = this.#clock.setTimer(
      () => {
        this.#atMs = Infinity;
        this.#cancel = undefined;
        this.#callback();
      },
      Math.min(Math.max(waitMs, this.#shortestMs), LONGEST_TIMER_MS),
    );
  }

  close(): void {
    this.#cancel?.();
    this.#cancel = undefined;
    this.#atMs = Infinity;
  }
}
