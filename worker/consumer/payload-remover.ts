import type { Redis } from 'ioredis';
import type { Logger } from '../../shared/runtime/logger.ts';

/** How long the tensors of an answered job may lie until they go together with others, in ms. */
const JOIN_MS = 50;
const MAX_JOINED_KEYS = 512;
/** More than this does not wait. */
const MAX_JOINED_BYTES = 8 * 1024 * 1024;

/** Removes tensors from Redis. What is left behind by a failure goes with its TTL. */
export class PayloadRemover {
  readonly #redis: Redis;
  readonly #logger: Logger;
  #keys: string[] = [];
  #bytes = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(redis: Redis, logger: Logger) {
    this.#redis = redis;
    this.#logger = logger;
  }

  /** Soon, with what else ends in the meantime: one command for many jobs. */
  soon(keys: readonly string[], byteLength: number): void {
    if (keys.length === 0) return;
    for (const key of keys) this.#keys.push(key);
    this.#bytes += byteLength;
    if (this.#keys.length >= MAX_JOINED_KEYS || this.#bytes >= MAX_JOINED_BYTES) this.flush();
    else this.#timer ??= setTimeout(() => this.flush(), JOIN_MS);
  }

  now(keys: readonly string[]): void {
    if (keys.length === 0) return;
    this.#redis.unlink(...keys).catch((error: unknown) => {
      this.#logger.debug({ error: String(error) }, 'tensors not removed');
    });
  }

  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const keys = this.#keys;
    this.#keys = [];
    this.#bytes = 0;
    this.now(keys);
  }
}
