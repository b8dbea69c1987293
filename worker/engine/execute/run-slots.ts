/** Somebody who could not start a run because something was not free. */
export interface SlotWaiter {
  /** It may be free: take it, or leave it to the next. */
  wake(): void;
}

/** What a run has to take before it starts, and gives back when it is over. */
export interface RunGate {
  /** Of an executor's gates the one with the smallest is tried first. */
  readonly pass: number;
  /** How many runs have taken it, over all models where they share it. */
  readonly runs: number;
  /** Takes it all or nothing; when it has to wait, `waiter` is woken once when it may be free. */
  take(waiter: SlotWaiter): boolean;
  /** `waiter` may want the next run, and is woken in its turn. */
  give(waiter: SlotWaiter): void;
}

/**
 * How many runs may be under way at once over all models. Runs occupy threads of libuv's pool, which files, name
 * look-ups and image decoding need too.
 */
export class RunSlots implements RunGate {
  readonly pass = 0;
  readonly #count: number;
  #free: number;
  readonly #waiters = new Set<SlotWaiter>();

  constructor(count: number) {
    this.#count = count;
    this.#free = count;
  }

  get runs(): number {
    return this.#count - this.#free;
  }

  take(waiter: SlotWaiter): boolean {
    if (this.#free === 0) {
      this.#waiters.add(waiter);
      return false;
    }
    this.#free -= 1;
    return true;
  }

  /** Those who waited come first, the longest waiting first; the giver looks after itself. */
  give(): void {
    this.#free += 1;
    for (const waiter of this.#waiters) {
      if (this.#free === 0) return;
      this.#waiters.delete(waiter);
      waiter.wake();
    }
  }
}
