/** How many requests of a version there were lately and how many of them failed. */
export interface Outcomes {
  total: number;
  failed: number;
}

const SLICES = 12;

interface Slice extends Outcomes {
  /** Which slice of time it counts; older ones are counted no more. */
  number: number;
}

/** Counts the outcomes of the last while, in slices of it that fall away one by one. */
export class FailureWindow {
  readonly #sliceMs: number;
  readonly #slices: Slice[] = Array.from({ length: SLICES }, () => ({ number: -1, total: 0, failed: 0 }));

  constructor(windowMs: number) {
    this.#sliceMs = windowMs / SLICES;
  }

  note(failed: boolean, nowMs: number): void {
    const number = Math.floor(nowMs / this.#sliceMs);
    const slice = this.#slices[number % SLICES];
    if (!slice) return;
    if (slice.number !== number) {
      slice.number = number;
      slice.total = 0;
      slice.failed = 0;
    }
    slice.total += 1;
    if (failed) slice.failed += 1;
  }

  outcomes(nowMs: number): Outcomes {
    const oldest = Math.floor(nowMs / this.#sliceMs) - SLICES + 1;
    const sum: Outcomes = { total: 0, failed: 0 };
    for (const { number, total, failed } of this.#slices) {
      if (number < oldest) continue;
      sum.total += total;
      sum.failed += failed;
    }
    return sum;
  }
}
