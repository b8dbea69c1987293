/** More shapes than that are not remembered: the one that was lowered longest ago is forgotten. */
const MAX_SHAPES = 256;

/** How long a limit holds before twice the rows are tried; twice as long each time that they find no memory. */
const FIRST_HOLD_MS = 60_000;
const LONGEST_HOLD_MS = 3_600_000;

interface Limit {
  rows: number;
  /** The least that was ever let through, which has been told of. */
  toldRows: number;
  holdMs: number;
  untilMs: number;
}

/**
 * Most rows of a run by the shape of its requests, where larger runs have found no memory: half of what failed. Other
 * models and requests come and go, so twice the rows are tried after a while; where that fails again, later.
 */
export class RowLimits {
  readonly #maxRows: number;
  readonly #limits = new Map<string, Limit>();
  #leastRows: number | undefined;

  /** @param maxRows as many as a run may have in any case */
  constructor(maxRows: number) {
    this.#maxRows = maxRows;
  }

  get any(): boolean {
    return this.#limits.size > 0;
  }

  /** The smallest of them; undefined where none holds. */
  get leastRows(): number | undefined {
    return this.#leastRows;
  }

  /** Infinity where nothing is known to be too much. */
  rowsFor(shape: string, nowMs: number): number {
    const limit = this.#limits.get(shape);
    if (!limit) return Infinity;
    if (nowMs < limit.untilMs) return limit.rows;
    const allowed = limit.rows >= this.#maxRows; // and nothing has failed for a while
    if (allowed) this.#limits.delete(shape);
    limit.rows = allowed ? Infinity : Math.min(limit.rows * 2, this.#maxRows);
    limit.untilMs = nowMs + limit.holdMs;
    this.#measure();
    return limit.rows;
  }

  /**
   * A run of so many rows of this shape has found no memory.
   * @returns the limit that holds now, when it is one that was not there before
   */
  lower(shape: string, rows: number, nowMs: number): number | undefined {
    const before = this.#limits.get(shape);
    const half = Math.max(1, Math.ceil(rows / 2));
    if (before && half >= before.rows) return undefined; // began before the limit was lowered, or is a request of its own
    const toldRows = Math.min(half, before?.toldRows ?? Infinity);
    const holdMs = before ? Math.min(before.holdMs * 2, LONGEST_HOLD_MS) : FIRST_HOLD_MS;
    this.#limits.delete(shape);
    this.#limits.set(shape, { rows: half, toldRows, holdMs, untilMs: nowMs + holdMs });
    if (this.#limits.size > MAX_SHAPES) this.#forgetOldest();
    this.#measure();
    return before && half >= before.toldRows ? undefined : half;
  }

  #measure(): void {
    const rows = Math.min(...Array.from(this.#limits.values(), (limit) => limit.rows));
    this.#leastRows = rows < this.#maxRows ? rows : undefined;
  }

  #forgetOldest(): void {
    for (const shape of this.#limits.keys()) {
      this.#limits.delete(shape);
      return;
    }
  }
}
