import { Call } from '../../../shared/infer/call.ts';
import type { InferFn } from '../../../shared/infer/ports.ts';
import type { InferRequest } from '../../../shared/infer/request.ts';
import type { InferResponse } from '../../../shared/infer/response.ts';
import type { Clock } from '../../../shared/runtime/clock.ts';
import { totalBytesOf } from '../../../shared/tensor/tensor.ts';
import type { ShadowRule } from '../../../shared/traffic/traffic-rule.ts';
import { differenceOf } from './compare-outputs.ts';
import { countComparison, type ShadowCounts } from './shadow-counts.ts';

/** Copies in flight; a version that cannot keep up gets fewer. */
const MAX_IN_FLIGHT = 64;
const MAX_BYTES_IN_FLIGHT = 64 * 1024 * 1024;

/** A copy that was sent. Exactly one of the two is to be called, once. */
export interface ShadowRun {
  /** The request was answered. The response must stay as it is until the copy has ended. */
  served(response: InferResponse): void;
  failed(): void;
}

/** Sends copies of requests to another version and counts how its answers differ. Nobody waits for them. */
export class ShadowRuns {
  readonly #infer: InferFn;
  readonly #clock: Clock;
  #count = 0;
  #bytes = 0;

  /** @param infer ends by the call's deadline itself */
  constructor(infer: InferFn, clock: Clock) {
    this.#infer = infer;
    this.#clock = clock;
  }

  /** Copies the request, whose tensors must stay as they are until the copy has ended. Undefined when there is no room. */
  start(rule: ShadowRule, request: InferRequest, call: Call, counts: ShadowCounts): ShadowRun | undefined {
    const bytes = totalBytesOf(request.inputs);
    if (this.#count >= MAX_IN_FLIGHT || this.#bytes + bytes > MAX_BYTES_IN_FLIGHT) {
      counts.skipped += 1;
      return undefined;
    }
    this.#count += 1;
    this.#bytes += bytes;
    const startMs = this.#clock.now();
    const own = new Call(`${call.id}.shadow`, startMs, call.deadlineMs, call.priority);
    const run = this.#infer({ ...request, version: rule.version }, own).then(
      (response) => ({ response, us: (this.#clock.now() - startMs) * 1000 }),
      () => undefined,
    );
    void run.finally(() => {
      this.#count -= 1;
      this.#bytes -= bytes;
    });
    return {
      served: (response) => {
        const servedUs = (this.#clock.now() - startMs) * 1000;
        void run.then((shadow) => {
          if (!shadow) {
            counts.errors += 1;
            return;
          }
          counts.shadowUs += shadow.us;
          counts.servedUs += servedUs;
          countComparison(counts, differenceOf(response.outputs, shadow.response.outputs), rule.tolerance);
        });
      },
      failed: () => {
        counts.skipped += 1;
      },
    };
  }
}
