import type { Timings } from '../../shared/infer/response.ts';

/** Where the time of a call went, in ms. Of requests side by side, the longest counts. */
export class TaskTimings {
  preprocessMs = 0;
  queueMs = 0;
  computeMs = 0;

  /** Measures preprocessing from `startMs` until now, on the clock of `performance.now()`. */
  preprocessed(startMs: number): void {
    this.preprocessMs = Math.max(this.preprocessMs, performance.now() - startMs);
  }

  inferred({ queueUs, computeInputUs, computeInferUs, computeOutputUs }: Timings): void {
    this.queueMs = Math.max(this.queueMs, queueUs / 1000);
    this.computeMs = Math.max(this.computeMs, (computeInputUs + computeInferUs + computeOutputUs) / 1000);
  }

  /** As the `Server-Timing` header, which browsers show beside the request. */
  toHeader(totalMs: number): string {
    return [
      `preprocess;dur=${this.preprocessMs.toFixed(2)}`,
      `queue;dur=${this.queueMs.toFixed(2)}`,
      `compute;dur=${this.computeMs.toFixed(2)}`,
      `total;dur=${totalMs.toFixed(2)}`,
    ].join(', ');
  }
}
