import { InferError } from '../../shared/errors.ts';
import type { Timings } from '../../shared/infer/response.ts';
import { LATEST, runMsOf, RunPace } from '../../shared/infer/run-pace.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import type { RedisLink } from '../../shared/runtime/redis-link.ts';
import { type BundleLimits, bundleSize, decideFlush, rowsPerBundle, windowFor } from './coalesce-policy.ts';
import type { PendingRequest } from './pending-requests.ts';

export interface LaneOptions {
  readonly link: Pick<RedisLink, 'state'>;
  readonly clock: Clock;
  readonly limits: Omit<BundleLimits, 'maxRows'>;
  /** Brings a bundle to Redis. Rejects with an InferError. */
  readonly send: (requests: readonly PendingRequest[]) => Promise<void>;
  /** A bundle did not get there. */
  readonly onRefused: (requests: readonly PendingRequest[], error: InferError) => void;
}

/** What waits for one model to become a bundle. Acts on what coalesce-policy.ts decides. */
export class ModelLane {
  readonly #options: LaneOptions;
  #waiting: PendingRequest[] = [];
  #rows = 0;
  #bytes = 0;
  #limits: BundleLimits;
  readonly #pace = new RunPace();
  /** Moving average of what requests took beyond their run, in ms. */
  #meanWaitMs = 0;
  #lastFlushMs = -Infinity;
  #addsInFlight = 0;
  #decisionDue = false;
  #cancelTimer: (() => void) | undefined;

  constructor(options: LaneOptions) {
    this.#options = options;
    this.#limits = { ...options.limits, maxRows: 1 };
  }

  /** `maxBatchSize` is the model's; 0 for a model without a batch dimension. */
  push(request: PendingRequest, maxBatchSize: number): void {
    this.#waiting.push(request);
    this.#rows += request.rows;
    this.#bytes += request.bytes;
    const limit = rowsPerBundle(maxBatchSize, this.#limits.maxRequests, this.#pace);
    if (limit !== this.#limits.maxRows) this.#limits = { ...this.#limits, maxRows: limit };
    // At the end of this turn of the loop: what was read from the sockets together leaves together.
    if (!this.#decisionDue) {
      this.#decisionDue = true;
      setImmediate(this.#decide);
    }
  }

  /**
   * How long the model takes says how large bundles are to be, and how long requests wait for it how long they may wait
   * for company. One answer that came soon ends a longer window: the workers are not behind any more.
   * @param tookMs from the arrival of the request to its answer
   */
  noteAnswer(timings: Timings, tookMs: number): void {
    this.#pace.note(timings);
    const waitMs = Math.max(0, tookMs - runMsOf(timings));
    this.#meanWaitMs = this.#meanWaitMs * (1 - LATEST) + waitMs * LATEST;
    const windowMs = windowFor(this.#options.limits.windowMs, Math.min(this.#meanWaitMs, waitMs));
    if (windowMs !== this.#limits.windowMs) this.#limits = { ...this.#limits, windowMs };
  }

  /** Looks again, after the line to Redis has come back or the waiting requests were failed. */
  wake(): void {
    this.#decide();
  }

  close(): void {
    this.#cancelTimer?.();
    this.#waiting = [];
  }

  readonly #decide = (): void => {
    this.#decisionDue = false;
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    const { link, clock } = this.#options;
    // While the line is broken everything waits here; the dispatcher fails it when the break lasts.
    while (link.state.kind === 'up') {
      const decision = decideFlush(this.#line(), clock.now(), this.#limits);
      if (decision.kind === 'rest') return;
      if (decision.kind === 'wait') {
        this.#cancelTimer = clock.setTimer(this.#decide, decision.ms);
        return;
      }
      this.#flush();
    }
  };

  #line() {
    return {
      requests: this.#waiting.length,
      rows: this.#rows,
      bytes: this.#bytes,
      oldestMs: this.#waiting[0]?.call.arrivalMs ?? 0,
      lastFlushMs: this.#lastFlushMs,
      addsInFlight: this.#addsInFlight,
    };
  }

  #flush(): void {
    const live = this.#waiting.filter((request) => !request.settled);
    const requests = live.splice(0, bundleSize(live, this.#limits));
    this.#waiting = live;
    this.#rows = 0;
    this.#bytes = 0;
    for (const request of live) {
      this.#rows += request.rows;
      this.#bytes += request.bytes;
    }
    if (requests.length === 0) return;
    this.#lastFlushMs = this.#options.clock.now();
    this.#addsInFlight += 1;
    this.#options
      .send(requests)
      .then(
        () => {
          for (const request of requests) request.queued = true;
        },
        (error: unknown) => this.#options.onRefused(requests, InferError.from(error)),
      )
      .finally(() => {
        this.#addsInFlight -= 1;
        this.#decide();
      });
  }
}
