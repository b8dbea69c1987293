import type { GroupView } from './batch-policy.ts';

/** A run is filled up to the next size when that makes it at most so many times as large; else it is cut. */
const FILL_BELOW = 4 / 3;

/** 1, 2, 4, 8 … and the maximum. */
export function powersUpTo(maxRows: number): number[] {
  const sizes: number[] = [];
  for (let rows = 1; rows < maxRows; rows *= 2) sizes.push(rows);
  return [...sizes, maxRows];
}

/** The rows of a run that has at least so many and one of the sizes; as many as there are when no size is so large. */
export function filledRows(rows: number, sizes: readonly number[]): number {
  return sizes.find((size) => size >= rows) ?? rows;
}

/**
 * How many of the first `count` requests make a run of one of the sizes. As many as possible whose rows can be filled up
 * with at most a third of rows that nobody asked for: 13 rows run as 16, of 9 run 8, and 1 is left for the next run. Where
 * that cannot be, as requests are never split, those that waste the least. Pure.
 */
export function countForSize({ head }: GroupView, count: number, sizes: readonly number[]): number {
  let best = count;
  let least = Infinity;
  let rows = 0;
  let item = head;
  for (let taken = 1; item && taken <= count; taken += 1, item = item.next) {
    rows += item.rows;
    const waste = Math.max(FILL_BELOW, filledRows(rows, sizes) / rows);
    if (waste > least) continue;
    least = waste;
    best = taken;
  }
  return best;
}
