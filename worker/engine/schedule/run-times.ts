import type { CurvePoint } from '../../../shared/infer/batching-report.ts';

/** A size says something of its own after so many runs. */
const ENOUGH_RUNS = 8;

/** How many runs the mean of a size looks back on, about. */
const MEMORY_RUNS = 16;

/** What is measured may be so many times the curve of the load, or as small a part of it: real requests are longer texts. */
const FURTHEST = 64;

/** How far what is known of a size that is not run moves in one review towards what its neighbour shows. */
const AGEING = 0.25;

/** A size that was tried anew really is slow when it takes so many times what its neighbour had promised. */
const SLOWER = 1.1;

/** After so many runs of it that is seen. */
const TRIAL_RUNS = 4;

/** A size that turned out to be really slow is believed to be for so many reviews, and twice as many each time again. */
const FIRST_REST = 8;
const LONGEST_REST = 256;

interface Size extends CurvePoint {
  /** By how much runs of this size are slower than the curve says. */
  slowness: number;
  runs: number;
  /** Since the last review. */
  freshRuns: number;
  /** Reviews since it was run. */
  idleReviews: number;
  /** For how many reviews without a run its slowness is believed. */
  rest: number;
  /** What its slowness has come to since; undefined where it is what was measured. */
  agedTo: number | undefined;
  /** Since then. */
  triedRuns: number;
}

/**
 * How long runs take by their rows: the curve that was measured at load, corrected by what runs really take. What was
 * measured of a size that is not run any more is forgotten bit by bit, else a moment of disturbance would rule it out for
 * ever.
 */
export class RunTimes {
  readonly #sizes: readonly Size[];

  /** @param curve ascending in rows, all times above 0 */
  constructor(curve: readonly CurvePoint[]) {
    const unknown = { slowness: 1, runs: 0, freshRuns: 0, idleReviews: 0, rest: 0, agedTo: undefined, triedRuns: 0 };
    this.#sizes = curve.map(({ rows, ms }) => ({ rows, ms, ...unknown }));
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
    if (size.agedTo !== undefined && size.triedRuns === 0) size.runs = ENOUGH_RUNS; // so that it is soon seen what is true
    size.triedRuns += 1;
    size.runs += 1;
    size.freshRuns += 1;
    size.slowness += (slowness - size.slowness) / Math.min(size.runs, MEMORY_RUNS);
  }

  /** How long a run of so many rows is expected to take, in ms; 0 where nothing is known. */
  at(rows: number): number {
    return interpolate(this.#sizes, rows, (size) => size.ms * this.#slownessOf(size));
  }

  /** A review: what was not run since the last one comes closer to its nearest neighbour that was. */
  review(): void {
    const ran = this.#sizes.filter(({ runs, freshRuns }) => runs >= ENOUGH_RUNS && freshRuns > 0);
    for (const size of this.#sizes) {
      if (size.freshRuns > 0) {
        judge(size);
      } else if (size.runs >= ENOUGH_RUNS) {
        const neighbour = nearest(ran, size.rows);
        if (neighbour) age(size, neighbour);
      }
    }
    for (const size of this.#sizes) size.freshRuns = 0;
  }

  /** Of the nearest size that has been run often enough. */
  #slownessOf({ rows }: Size): number {
    const known = this.#sizes.filter(({ runs }) => runs >= ENOUGH_RUNS);
    return nearest(known, rows)?.slowness ?? 1;
  }
}

function nearest(sizes: readonly Size[], rows: number): Size | undefined {
  let found: Size | undefined;
  for (const each of sizes) if (!found || Math.abs(each.rows - rows) < Math.abs(found.rows - rows)) found = each;
  return found;
}

/** Larger runs that are slow say nothing about smaller ones: those may still fit where the larger ones do not. */
function age(size: Size, neighbour: Size): void {
  size.idleReviews += 1;
  if (size.idleReviews <= size.rest) return;
  if (neighbour.rows > size.rows && neighbour.slowness > size.slowness) return;
  size.slowness += (neighbour.slowness - size.slowness) * AGEING;
  size.agedTo = size.slowness;
  size.triedRuns = 0;
}

/** A size that is run. Where it was tried anew, it shows whether it had been taken for slow rightly. */
function judge(size: Size): void {
  size.idleReviews = 0;
  if (size.agedTo === undefined || size.triedRuns < TRIAL_RUNS) return;
  const slow = size.slowness > size.agedTo * SLOWER;
  size.rest = slow ? Math.min(LONGEST_REST, Math.max(FIRST_REST, size.rest * 2)) : 0;
  size.agedTo = undefined;
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
