import type { Clock } from '../../../shared/runtime/clock.ts';
import { LONGEST_TIMER_MS } from './wake-timer.ts';

/** The time that is left for an orderly end. It can be shortened, never lengthened. */
export class Grace {
  readonly #clock: Clock;
  #endsAtMs = Infinity;
  #wake: (() => void) | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** At most so much longer, from now. */
  shorten(graceMs: number): void {
    this.#endsAtMs = Math.min(this.#endsAtMs, this.#clock.now() + graceMs);
    this.#wake?.();
  }

  get leftMs(): number {
    return Math.max(0, this.#endsAtMs - this.#clock.now());
  }

  /** Something has changed that somebody may be waiting for. */
  notice(): void {
    this.#wake?.();
  }

  /** Resolves when it is done, which `notice` makes it look at, or when the time is over. One waits at a time. */
  async until(done: () => boolean): Promise<void> {
    while (!done() && this.leftMs > 0) {
      await new Promise<void>((resolve) => {
        const cancelTimer = this.#clock.setTimer(resolve, Math.min(this.leftMs, LONGEST_TIMER_MS));
        this.#wake = () => {
          cancelTimer();
          resolve();
        };
      });
      this.#wake = undefined;
    }
  }
}
