import type { ReleaseReason } from '../../../shared/infer/response.ts';

/** After so many waits in a row that brought nobody, requests stop waiting. */
export const LONELY_WAITS = 8;

/**
 * Whether waiting for company pays, learned per model. A lone client that sends its next request after the last answer
 * would pay the whole delay each time for nothing; with many clients the delay is what makes full batches.
 */
export class WaitEvidence {
  #delayMs: number;
  #lonelyWaits = 0;
  #lastGroup: unknown;
  #lastArrivalMs = -Infinity;

  constructor(delayMs: number) {
    this.#delayMs = delayMs;
  }

  /** Another delay holds from now on. What was learned stays. */
  set delayMs(delayMs: number) {
    this.#delayMs = delayMs;
  }

  get patient(): boolean {
    return this.#lonelyWaits < LONELY_WAITS;
  }

  /**
   * A request of `group` arrives. One that finds another still open, of its own group and at most a delay old, is the
   * company that waiting would have brought.
   */
  noteArrival(group: unknown, nowMs: number, othersOpen: boolean): void {
    if (othersOpen && group === this.#lastGroup && nowMs - this.#lastArrivalMs < this.#delayMs) this.#lonelyWaits = 0;
    this.#lastGroup = group;
    this.#lastArrivalMs = nowMs;
  }

  /** A batch of `requests` is released. Only waits that lasted the whole delay say something here. */
  noteRelease(requests: number, reason: ReleaseReason, waitedMs: number): void {
    if (requests > 1 || this.#delayMs === 0) return;
    if ((reason === 'delay' || reason === 'shape') && waitedMs >= this.#delayMs) this.#lonelyWaits += 1;
  }
}
