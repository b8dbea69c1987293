import type { Redis } from 'ioredis';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { RedisLink } from '../../shared/runtime/redis-link.ts';
import { cancelKey } from '../../shared/wire/names.ts';

/** How long a cancellation is told to workers when the request has no deadline, in ms. */
const KEEP_MS = 600_000;
/** A deadline is judged on clocks that may differ by a round trip. */
const SLACK_MS = 5000;

/** Tells workers which requests nobody waits for any more, in one write for all that end in one turn of the loop. */
export class CancelWriter {
  readonly #redis: Redis;
  readonly #link: RedisLink;
  readonly #logger: Logger;
  readonly #key: string;
  #waiting: (number | string)[] = [];

  constructor(redis: Redis, link: RedisLink, producer: string, logger: Logger) {
    this.#redis = redis;
    this.#link = link;
    this.#logger = logger;
    this.#key = cancelKey(producer);
  }

  /** `deadlineMs` on Redis' clock: after it workers drop the request anyway. */
  add(sequence: number, deadlineMs: number): void {
    if (this.#waiting.length === 0) setImmediate(() => this.#flush());
    const until = Number.isFinite(deadlineMs) ? deadlineMs + SLACK_MS : this.#link.now() + KEEP_MS;
    this.#waiting.push(Math.round(until), String(sequence));
  }

  #flush(): void {
    const entries = this.#waiting;
    this.#waiting = [];
    // Without a connection the workers will find out by the deadline.
    if (this.#link.state.kind !== 'up') return;
    this.#redis
      .pipeline()
      .zadd(this.#key, ...entries)
      .zremrangebyscore(this.#key, '-inf', Math.round(this.#link.now()))
      .pexpire(this.#key, KEEP_MS)
      .exec()
      .catch((error: unknown) => {
        this.#logger.debug({ error: String(error) }, 'cancellation not written');
      });
  }
}
