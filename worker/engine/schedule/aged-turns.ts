/**
 * From this wait on, in ms, a request gets a turn whatever came before it in the order. Long enough that priorities are
 * strict for all that a client waits for interactively, and far below the 60 s that a request may take by default, so
 * that it still finds somebody who waits for it.
 */
export const AGED_AFTER_MS = 5000;

/**
 * One run in so many begins with those that have waited longest, once any has aged. The share is bounded, because under
 * a lasting overload everything ages, and priorities would mean nothing just when they are needed.
 */
export const AGED_TURN_EVERY = 8;

/** A queue in which somebody may have waited long. */
export interface AgingQueue {
  /** When its oldest request entered, in ms. */
  readonly oldestMs: number;
}

/** Whose turn it is for having waited: without it a steady stream of urgent requests would starve all others. */
export class AgedTurns {
  #runsSinceTurn = AGED_TURN_EVERY;
  /** Before this moment nobody can have aged. */
  #noneBeforeMs = -Infinity;

  noteRun(): void {
    this.#runsSinceTurn += 1;
  }

  /** The queue whose oldest requests the next run is to begin with; undefined while it is nobody's turn. */
  take<Q extends AgingQueue>(queues: Iterable<Q>, nowMs: number): Q | undefined {
    if (this.#runsSinceTurn < AGED_TURN_EVERY || nowMs < this.#noneBeforeMs) return undefined;
    let oldest: Q | undefined;
    for (const queue of queues) if (!oldest || queue.oldestMs < oldest.oldestMs) oldest = queue;
    this.#noneBeforeMs = (oldest?.oldestMs ?? nowMs) + AGED_AFTER_MS;
    if (!oldest || nowMs < this.#noneBeforeMs) return undefined;
    this.#runsSinceTurn = 0;
    return oldest;
  }
}
