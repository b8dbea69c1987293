/** Where bundles are over in this time, in ms, fetching the next one ahead gains nothing while only one is waiting. */
const SHORT_BUNDLE_MS = 5;
/** BullMQ hands over a next job in the turn in which the last one ended. */
const SAME_TURN_MS = 1;
/** One such job may be the next request of the one client that was answered a moment ago; so many in a row are not. */
const MIN_STREAK = 8;
/** How long one sign of a backlog counts, in ms. */
const SIGN_LASTS_MS = 20;

/**
 * Whether more jobs are waiting than the one in hand, as far as can be told without asking. Fetching ahead from an empty
 * queue costs a lone request two more calls of BullMQ's scripts and delays its start by a round trip (measured: 5.0
 * script calls a request without this, 3.7 with it).
 */
export class Backlog {
  /** Moving average of how long a bundle is in hand; long until it is known. */
  #meanMs = Infinity;
  #endedMs = -Infinity;
  #streak = 0;
  #signEndsMs = -Infinity;

  /** A bundle of so many requests came into hand. All times in ms on one clock. */
  noteStart(requests: number, nowMs: number): void {
    this.#streak = nowMs - this.#endedMs < SAME_TURN_MS ? this.#streak + 1 : 0;
    if (requests > 1 || this.#streak >= MIN_STREAK) this.#signEndsMs = nowMs + SIGN_LASTS_MS;
  }

  /** A bundle was answered, so long after it came into hand. */
  noteAnswered(ms: number): void {
    this.#meanMs = this.#meanMs === Infinity ? ms : this.#meanMs * 0.8 + ms * 0.2;
  }

  /** Its job was completed; what BullMQ found waiting begins in this turn. */
  noteCompleted(nowMs: number): void {
    this.#endedMs = nowMs;
  }

  /** Whether to fetch ahead of the bundle in hand. */
  likely(nowMs: number): boolean {
    return this.#meanMs >= SHORT_BUNDLE_MS || nowMs < this.#signEndsMs;
  }
}
