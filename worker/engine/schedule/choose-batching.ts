/** What is known of a model's runs; see run-times.ts. */
export interface KnownTimes {
  readonly sizes: readonly number[];
  at(rows: number): number;
}

export interface ChoiceBounds {
  /** Never more rows. */
  readonly maxRows: number;
  /** Never a longer delay. */
  readonly maxDelayMs: number;
  /** What a request may take in the engine: its wait, a run that is under way, and its own; undefined for no limit. */
  readonly budgetMs: number | undefined;
  /** Requests arrive faster than runs within the budget can take them: then the best time per row counts alone. */
  readonly pressed: boolean;
  /** The rows of now, which stay while they are nearly as good as others, as measured times waver; 0 for none. */
  readonly heldRows: number;
}

export interface BatchChoice {
  /** Most rows of a run. */
  readonly rows: number;
  readonly delayMs: number;
  /** No run keeps the budget. */
  readonly tooSlow: boolean;
}

/** A smaller run is preferred that costs at most so many times the best time per row. */
const NEARLY_BEST = 1.1;

/** Rows that are held may go so far beyond the budget. */
const HELD_BEYOND = 1.1;

/** A run takes no longer than another one when it takes at most so many times as long. */
const NO_LONGER = 1.05;

/** Company pays when a row in it takes at most this share of what it takes alone. */
export const PAYS_BELOW = 0.9;

/**
 * Rows of a run and delay from the times of runs, T(n) for n rows:
 *
 *     rows  = the smallest measured n, at most maxRows, with T(n) / n within 10 % of the best of those with 2 T(n) <= budget
 *     delay = the least of T(rows), rows T(1) - T(rows), budget - 2 T(rows) and maxDelayMs; 0 where T(rows) / rows > 0.9 T(1)
 *
 * Where no n keeps that, it is those that take no longer than one row; where not even one row alone does, all of them. Under
 * a press rows are what has the best time per row: there is nothing to spare. The rows of now stay while their time per row
 * is within 10 % of the best and they keep 1.1 times the budget.
 * Twice T, because a request may arrive just after a run began and then takes one itself. The delay is no longer than
 * the run that it is for, so that waiting at most doubles what a request takes, nor than what the run saves. Pure.
 */
export function chooseBatching(times: KnownTimes, bounds: ChoiceBounds): BatchChoice {
  const { maxRows, budgetMs = Infinity, pressed, heldRows } = bounds;
  const sizes = times.sizes.filter((rows) => rows <= maxRows);
  const lenience = (rows: number) => (rows === heldRows ? HELD_BEYOND : 1);
  const fitting = sizes.filter((rows) => 2 * times.at(rows) <= budgetMs * lenience(rows));
  const quick = sizes.filter((rows) => times.at(rows) <= NO_LONGER * times.at(1));
  const unfit = times.at(1) > budgetMs ? sizes : quick;
  const allowed = pressed ? sizes : fitting.length > 0 ? fitting : unfit;
  const msPerRow = (rows: number) => times.at(rows) / rows;
  const best = Math.min(...allowed.map(msPerRow));
  const near = allowed.filter((each) => msPerRow(each) <= best * NEARLY_BEST);
  const sorted = pressed ? near.toSorted((a, b) => msPerRow(a) - msPerRow(b)) : near;
  const rows = (near.includes(heldRows) ? heldRows : sorted[0]) ?? maxRows;
  const runMs = times.at(rows);
  const savedMs = rows * times.at(1) - runMs;
  const pays = rows > 1 && runMs / rows <= PAYS_BELOW * times.at(1);
  const delayMs = pays ? Math.min(runMs, savedMs, boundDelay(times, rows, bounds)) : 0;
  return { rows, delayMs, tooSlow: sizes.length > 0 && fitting.length === 0 };
}

/** The longest delay that leaves room for two runs of so many rows. */
export function boundDelay(
  times: KnownTimes,
  rows: number,
  { maxDelayMs, budgetMs = Infinity }: Pick<ChoiceBounds, 'maxDelayMs' | 'budgetMs'>,
): number {
  // Of a model that nothing is known of, runs are assumed to take the other half.
  const runsMs = times.sizes.length > 0 ? 2 * times.at(rows) : budgetMs / 2;
  return Math.max(0, Math.min(maxDelayMs, budgetMs === Infinity ? Infinity : budgetMs - runsMs));
}
