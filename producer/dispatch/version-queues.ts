import type { Redis } from 'ioredis';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { RedisLink } from '../../shared/runtime/redis-link.ts';
import { queueName, VERSION_QUEUES_KEY } from '../../shared/wire/names.ts';
import type { QueueCatalog } from './queue-catalog.ts';

/** How often a queue in use is told again to the workers, in ms. They forget it after an hour. */
const TELL_AGAIN_MS = 60_000;

interface UsedQueue {
  readonly model: string;
  readonly version: string;
  toldMs: number;
}

/**
 * Decides which queue carries a request for one version of a model. Where all workers have that version it is the queue of
 * the model; where some do not, a queue that only those take from which have it. Workers listen on such a queue once a
 * producer has told that it uses it.
 */
export class VersionQueues {
  readonly #redis: Redis;
  readonly #link: RedisLink;
  readonly #catalog: QueueCatalog;
  readonly #logger: Logger;
  readonly #used = new Map<string, UsedQueue>();

  constructor(redis: Redis, link: RedisLink, catalog: QueueCatalog, logger: Logger) {
    this.#redis = redis;
    this.#link = link;
    this.#catalog = catalog;
    this.#logger = logger;
  }

  /** The version whose queue is to be used; '' for the queue of the model. `version` is what the request asks for. */
  choose(model: string, version: string): string {
    if (version === '' || this.#catalog.servedByAll(model, version)) return '';
    const name = queueName(model, version);
    const used = this.#used.get(name) ?? { model, version, toldMs: -Infinity };
    this.#used.set(name, used);
    const nowMs = performance.now();
    if (nowMs - used.toldMs > TELL_AGAIN_MS) {
      used.toldMs = nowMs;
      // A time that is further away stays: jobs that wait longer are in the queue too.
      this.#redis.zadd(VERSION_QUEUES_KEY, 'GT', Math.round(this.#link.now()), name).catch((error: unknown) => {
        used.toldMs = -Infinity;
        this.#logger.debug({ model, version, error: String(error) }, 'version queue not told');
      });
    }
    return version;
  }

  used(): readonly { readonly model: string; readonly version: string }[] {
    return [...this.#used.values()];
  }
}
