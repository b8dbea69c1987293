/** A request of an ensemble that may have to wait in front of a step. */
export interface GateWaiter {
  /** The gate that held it back lets it through. */
  pass(step: number): void;
}

/**
 * Bounds the requests in flight at each step of an ensemble, over all its requests (`max_inflight_requests`). Those that
 * find a step full wait in the order in which they came; how many there can be is bounded by the ensemble's own queue.
 */
export class StepGates {
  readonly #limit: number;
  readonly #inFlight: number[];
  readonly #waiting: Set<GateWaiter>[];

  constructor(limit: number, steps: number) {
    this.#limit = limit;
    this.#inFlight = Array.from({ length: steps }, () => 0);
    this.#waiting = Array.from({ length: steps }, () => new Set());
  }

  /** How many wait, over all steps. */
  get waiting(): number {
    return this.#waiting.reduce((sum, line) => sum + line.size, 0);
  }

  /** Takes a place at the step. When false, `pass` is called once there is one, which then is taken. */
  enter(step: number, waiter: GateWaiter): boolean {
    const inFlight = this.#inFlight[step] ?? 0;
    if (inFlight < this.#limit) {
      this.#inFlight[step] = inFlight + 1;
      return true;
    }
    this.#waiting[step]?.add(waiter);
    return false;
  }

  /** Gives a place back; the next one in line gets it. */
  leave(step: number): void {
    const line = this.#waiting[step];
    const [next] = line ?? [];
    if (line && next) {
      line.delete(next);
      next.pass(step);
    } else {
      this.#inFlight[step] = (this.#inFlight[step] ?? 1) - 1;
    }
  }

  /** Does not wait any more, at any step. */
  withdraw(waiter: GateWaiter): void {
    for (const line of this.#waiting) line.delete(waiter);
  }
}
