import type { Redis } from 'ioredis';
import { InferError } from '../../shared/errors.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { RedisLink } from '../../shared/runtime/redis-link.ts';
import { cancelKey } from '../../shared/wire/names.ts';
import type { HeldRequests } from './held-requests.ts';

const WATCH_MS = 200;
const NONE: ReadonlySet<number> = new Set();

/**
 * Looks again and again whether somebody still waits for the requests in hand that do not run yet. Only those that have
 * waited a while are asked about, so a fast model costs nothing.
 */
export class CancelWatch {
  readonly #redis: Redis;
  readonly #link: RedisLink;
  readonly #held: HeldRequests;
  readonly #logger: Logger;
  #timer: NodeJS.Timeout | undefined;
  #looking = false;

  constructor(redis: Redis, link: RedisLink, held: HeldRequests, logger: Logger) {
    this.#redis = redis;
    this.#link = link;
    this.#held = held;
    this.#logger = logger;
  }

  start(): void {
    this.#timer = setInterval(() => void this.#look(), WATCH_MS);
    this.#timer.unref();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  async #look(): Promise<void> {
    if (this.#looking || this.#held.count === 0 || this.#link.state.kind !== 'up') return;
    this.#looking = true;
    try {
      for (const [producer, requests] of this.#held.waiting(performance.now() - WATCH_MS)) {
        const cancelled = await readCancelled(
          this.#redis,
          producer,
          requests.map((request) => request.sequence),
        );
        for (const request of requests) {
          if (cancelled.has(request.sequence)) request.call.cancel(cancelledError());
        }
      }
    } catch (error) {
      this.#logger.debug({ error: String(error) }, 'cancellations not read');
    } finally {
      this.#looking = false;
    }
  }
}

/** Which of these requests the producer has given up. Mostly it has given up none, which a much smaller command tells. */
export async function readCancelled(
  redis: Redis,
  producer: string,
  sequences: readonly number[],
): Promise<ReadonlySet<number>> {
  if (sequences.length > 1 && (await redis.exists(cancelKey(producer))) === 0) return NONE;
  const scores = await redis.zmscore(cancelKey(producer), ...sequences.map(String));
  return new Set(sequences.filter((_, index) => scores[index] !== null));
}

export function cancelledError(): InferError {
  return new InferError('CANCELLED', 'the request was cancelled');
}
