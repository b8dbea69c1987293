/** Somebody who could not start a run for want of a slot. */
export interface SlotWaiter {
  /** A slot may be free: take it, or leave it to the next. */
  wake(): void;
}

/**
 * How many runs may be under way at once over all models. Runs occupy threads of libuv's pool, which files, name
 * look-ups and image decoding need too.
 */
export class RunSlots {
  #free: number;
  readonly #waiters = new Set<SlotWaiter>();

  constructor(count: number) {
    this.#free = count;
  }

  /** Takes a slot; without one, `waiter` is woken once when there may be one. */
  take(waiter: SlotWaiter): boolean {
    if (this.#free === 0) {
      this.#waiters.add(waiter);
      return false;
    }
    this.#free -= 1;
    return true;
  }

  /** Gives a slot back. Those who waited come first, the longest waiting first. */
  give(): void {
    this.#free += 1;
    for (const waiter of this.#waiters) {
      if (this.#free === 0) return;
      this.#waiters.delete(waiter);
      waiter.wake();
    }
  }
}
