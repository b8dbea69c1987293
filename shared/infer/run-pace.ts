import type { Timings } from './response.ts';

/** How much the latest counts among those before it, in a moving average of runs or answers. */
export const LATEST = 0.2;

/** What the run that a request was part of took, in ms. */
export function runMsOf({ computeInputUs, computeInferUs, computeOutputUs }: Timings): number {
  return (computeInputUs + computeInferUs + computeOutputUs) / 1000;
}

/** How long runs of a model take lately, and how many rows they have. */
export class RunPace {
  #ms: number | undefined;
  #rows = 0;
  #lastRows = 0;

  /** A request was answered. Of those that ran together one carries the run. */
  note(timings: Timings): void {
    const { executions, batchSize: rows } = timings;
    if (executions === 0) return;
    const ms = runMsOf(timings);
    this.#ms = this.#ms === undefined ? ms : this.#ms * (1 - LATEST) + ms * LATEST;
    this.#rows = this.#rows === 0 ? rows : this.#rows * (1 - LATEST) + rows * LATEST;
    this.#lastRows = rows;
  }

  /** Moving average of what a run takes, in ms; undefined before the first. */
  get runMs(): number | undefined {
    return this.#ms;
  }

  /** Rows of a run: the moving average or, where they become more, those of the last. 0 before the first. */
  get runRows(): number {
    return Math.max(this.#rows, this.#lastRows);
  }
}
