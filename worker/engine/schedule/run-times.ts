import type { CurvePoint } from '../../../shared/infer/batching-report.ts';

/** A size says something of its own after so many runs. */
const ENOUGH_RUNS = 8;

/** How many runs the mean of a size looks back on, about. */
const MEMORY_RUNS = 16;

/** What is measured may be so many times the curve of the load, or as small a part of it: real requests are longer texts. */
const FURTHEST = 64;

interface Size extends CurvePoint {
  /** By how much runs of this size are slower than the curve says. */
  slowness: number;
  runs: number;
}

/** How long runs take by their rows: the curve that was measured at load, corrected by what runs really take. */
export class RunTimes {
  readonly #sizes: readonly Size[];

  /** @param curve ascending in rows, all times above 0 */
  constructor(curve: readonly CurvePoint[]) {
    this.#sizes = curve.map(({ rows, ms }) => ({ rows, ms, slowness: 1, runs: 0 }));
  }

  /** The sizes that were measured at load, ascending; none where nothing is known. */
  get sizes(): readonly number[] {
    return this.#sizes.map(({ rows }) => rows);
  }

  /** A run of so many rows took so long. */
  note(rows: number, ms: number): void {
    const size = this.#sizes.find((each) => each.rows >= rows) ?? this.#sizes.at(-1);
    const expectedMs = interpolate(this.#sizes, rows, ({ ms: loadMs }) => loadMs);
    if (!size || !(expectedMs > 0) || !(ms > 0)) return;
    const slowness = Math.min(FURTHEST, Math.max(1 / FURTHEST, ms / expectedMs));
    size.runs += 1;
    size.slowness += (slowness - size.slowness) / Math.min(size.runs, MEMORY_RUNS);
  }

  /** How long a run of so many rows is expected to take, in ms; 0 where nothing is known. */
  at(rows: number): number {
    return interpolate(this.#sizes, rows, (size) => size.ms * this.#slownessOf(size));
  }

  /** Of the nearest size that has been run often enough. */
  #slownessOf(size: Size): number {
    let nearest: Size | undefined;
    for (const each of this.#sizes) {
      if (each.runs < ENOUGH_RUNS) continue;
      if (!nearest || Math.abs(each.rows - size.rows) < Math.abs(nearest.rows - size.rows)) nearest = each;
    }
    return nearest?.slowness ?? 1;
  }
}

/** Straight lines between the sizes; beyond the last one each row costs what it costs there. */
function interpolate(sizes: readonly Size[], rows: number, msOf: (size: Size) => number): number {
  let below: Size | undefined;
  for (const size of sizes) {
    if (size.rows === rows) return msOf(size);
    if (size.rows > rows) {
      if (!below) return msOf(size);
      const share = (rows - below.rows) / (size.rows - below.rows);
      return msOf(below) + share * (msOf(size) - msOf(below));
    }
    below = size;
  }
  return below ? (msOf(below) * rows) / below.rows : 0;
}
