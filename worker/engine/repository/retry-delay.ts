const FIRST_MS = 1000;
const LONGEST_MS = 30_000;
/** How often it may be looked whether the files have changed, in ms. */
const LOOK_MS = 1000;

/** How long requests do not try again to load a model that could not be loaded: longer after every failure. */
export class RetryDelay {
  #delayMs = 0;
  #untilMs = -Infinity;
  #lookedMs = -Infinity;

  failed(nowMs: number): void {
    this.#delayMs = Math.min(LONGEST_MS, this.#delayMs === 0 ? FIRST_MS : 2 * this.#delayMs);
    this.#untilMs = nowMs + this.#delayMs;
    this.#lookedMs = nowMs;
  }

  over(): void {
    this.#delayMs = 0;
    this.#untilMs = -Infinity;
  }

  holds(nowMs: number): boolean {
    return nowMs < this.#untilMs;
  }

  /** Whether it is time to look for a change that would end the delay. Counts as the look. */
  mayLook(nowMs: number): boolean {
    if (nowMs - this.#lookedMs < LOOK_MS) return false;
    this.#lookedMs = nowMs;
    return true;
  }
}
