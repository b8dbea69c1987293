import { InferError } from '../../shared/errors.ts';
import type { DecodedBundle } from '../../shared/wire/job.ts';
import { jobId } from '../../shared/wire/queue-options.ts';

const MAX_SEEN = 100_000;

/**
 * Signed jobs of a queue where each runs once, as it changes what a sequence has come to. One that comes a second time was
 * put back by somebody who has seen it. Kept until their requests are over, when they would not run anyway.
 */
export class SeenJobs {
  readonly #untilMs = new Map<string, number>();

  /** @throws InferError PERMISSION_DENIED for one that was here before */
  add({ producer, bundle, items }: DecodedBundle, nowMs: number): void {
    const id = jobId(producer, bundle);
    // They came in about the order in which they end.
    for (const [old, untilMs] of this.#untilMs) {
      if (untilMs > nowMs && this.#untilMs.size < MAX_SEEN) break;
      this.#untilMs.delete(old);
    }
    if (this.#untilMs.has(id)) throw new InferError('PERMISSION_DENIED', 'the job was here before, and runs once');
    this.#untilMs.set(id, Math.max(...items.map(({ deadlineMs }) => deadlineMs)));
  }
}
