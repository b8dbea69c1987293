import type { Redis } from 'ioredis';
import type { InferError } from '../../shared/errors.ts';
import type { Timings } from '../../shared/infer/response.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { RedisLink } from '../../shared/runtime/redis-link.ts';
import { queueName } from '../../shared/wire/names.ts';
import type { QueueKeys } from '../../shared/wire/queue-keys.ts';
import type { BundleLimits } from './coalesce-policy.ts';
import { ModelLane } from './model-lane.ts';
import type { ModelQueues } from './model-queues.ts';
import type { PendingRequest } from './pending-requests.ts';
import { sendBundle } from './send-bundle.ts';

export interface ModelLanesOptions {
  /** The connection that the queues use too. */
  readonly redis: Redis;
  readonly link: RedisLink;
  readonly queues: ModelQueues;
  readonly producer: string;
  readonly keys: QueueKeys | undefined;
  readonly clock: Clock;
  readonly limits: Omit<BundleLimits, 'maxRows'>;
  /** A bundle did not get to Redis. */
  readonly onRefused: (requests: readonly PendingRequest[], error: InferError) => void;
  readonly logger: Logger;
}

/** The lanes of all queues: what waits to become a bundle, and its way to Redis. */
export class ModelLanes {
  readonly #options: ModelLanesOptions;
  /** By the name of their queue. */
  readonly #lanes = new Map<string, { readonly lane: ModelLane; readonly worker: string }>();
  #bundles = 0;

  constructor(options: ModelLanesOptions) {
    this.#options = options;
  }

  /** Puts a request into the lane of its queue. `maxBatchSize` is the model's. */
  push(request: PendingRequest, maxBatchSize: number): void {
    this.#laneOf(request).push(request, maxBatchSize);
  }

  /** The lane that a request left by learns from its answer. */
  noteAnswer({ request: { model }, queueVersion, worker, call }: PendingRequest, timings: Timings): void {
    const lane = this.#lanes.get(queueName(model, queueVersion, worker))?.lane;
    lane?.noteAnswer(timings, this.#options.clock.now() - call.arrivalMs);
  }

  /** The line to Redis has come back, or what waits was failed. */
  wake(): void {
    for (const { lane } of this.#lanes.values()) lane.wake();
  }

  /** The worker is gone, and its queues with it. */
  forgetWorker(gone: string): void {
    for (const [queue, { lane, worker }] of this.#lanes) {
      if (worker !== gone) continue;
      lane.close();
      this.#lanes.delete(queue);
    }
    this.#options.queues.removeOf(gone);
  }

  close(): void {
    for (const { lane } of this.#lanes.values()) lane.close();
  }

  #laneOf({ request: { model }, queueVersion: version, worker }: PendingRequest): ModelLane {
    const queue = queueName(model, version, worker);
    const known = this.#lanes.get(queue);
    if (known) return known.lane;
    const { link, clock, limits, logger, onRefused } = this.#options;
    const lane = new ModelLane({
      link,
      clock,
      limits,
      send: (requests) => this.#send(model, version, worker, requests),
      onRefused: (requests, error) => {
        logger.warn({ model, requests: requests.length, err: error }, 'bundle refused');
        onRefused(requests, error);
      },
    });
    this.#lanes.set(queue, { lane, worker });
    return lane;
  }

  #send(model: string, version: string, worker: string, requests: readonly PendingRequest[]): Promise<void> {
    const { redis, link, queues, producer, keys } = this.#options;
    const bundle = (this.#bundles += 1).toString(36);
    for (const request of requests) request.bundle = bundle;
    const queue = queues.of(model, version, worker);
    return sendBundle({ redis, link, queue, producer, model, keys }, bundle, requests);
  }
}
