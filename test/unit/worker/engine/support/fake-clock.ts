import type { Clock } from '../../../../../shared/runtime/clock.ts';

/** Time that stands still until the test moves it. */
export class FakeClock implements Clock {
  #nowMs = 1000;
  readonly #timers = new Map<object, { atMs: number; callback: () => void }>();

  now(): number {
    return this.#nowMs;
  }

  setTimer(callback: () => void, ms: number): () => void {
    const key = {};
    this.#timers.set(key, { atMs: this.#nowMs + ms, callback });
    return () => this.#timers.delete(key);
  }

  /** How many timers are set. */
  get timers(): number {
    return this.#timers.size;
  }

  /** Moves time while nothing runs, as a blocked event loop does. */
  stall(ms: number): void {
    this.#nowMs += ms;
  }

  /** Moves time and calls what becomes due, in order. */
  advance(ms: number): void {
    const endMs = this.#nowMs + ms;
    for (;;) {
      const due = [...this.#timers].filter(([, { atMs }]) => atMs <= endMs).sort(([, a], [, b]) => a.atMs - b.atMs)[0];
      if (!due) break;
      this.#timers.delete(due[0]);
      this.#nowMs = Math.max(this.#nowMs, due[1].atMs);
      due[1].callback();
    }
    this.#nowMs = endMs;
  }
}
