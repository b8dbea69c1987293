import { Queue } from 'bullmq';
import type { Redis } from 'ioredis';
import type { Logger } from '../../shared/runtime/logger.ts';
import { QUEUE_PREFIX, WORKER_QUEUES_KEY, workerKey } from '../../shared/wire/names.ts';

const TELL_AGAIN_MS = 5000;
const SWEEP_MS = 10_000;

/**
 * Keeps the list of queues that belong to single workers, and removes those whose worker is gone: nobody else takes from
 * them, and who waited for an answer has been told. Producers remove those that they used themselves; this is for those of
 * producers that are gone too.
 */
export class OwnQueues {
  readonly #redis: Redis;
  readonly #worker: string;
  readonly #logger: Logger;
  #toldMs = -Infinity;
  #sweptMs = -Infinity;

  constructor(redis: Redis, worker: string, logger: Logger) {
    this.#redis = redis;
    this.#worker = worker;
    this.#logger = logger;
  }

  /** Called again and again once this worker is announced; does what is due. `mine` are the queues that it takes from. */
  async tend(mine: readonly string[]): Promise<void> {
    const nowMs = performance.now();
    if (mine.length > 0 && nowMs - this.#toldMs >= TELL_AGAIN_MS) {
      this.#toldMs = nowMs;
      await this.#redis.hset(WORKER_QUEUES_KEY, Object.fromEntries(mine.map((queue) => [queue, this.#worker])));
    }
    if (nowMs - this.#sweptMs < SWEEP_MS) return;
    this.#sweptMs = nowMs;
    for (const [queue, worker] of Object.entries(await this.#redis.hgetall(WORKER_QUEUES_KEY))) {
      if (worker === this.#worker || (await this.#redis.exists(workerKey(worker))) === 1) continue;
      this.#logger.info({ queue }, 'queue of a lost worker removed');
      await this.remove(queue);
    }
  }

  /** Removes a queue and all that is in it, unless somebody else does. */
  async remove(queue: string): Promise<void> {
    if ((await this.#redis.hdel(WORKER_QUEUES_KEY, queue)) === 0) return;
    const handle = new Queue(queue, { connection: this.#redis, prefix: QUEUE_PREFIX });
    handle.on('error', (error) => this.#logger.debug({ queue, error: error.message }, 'queue error'));
    try {
      await handle.obliterate({ force: true });
    } finally {
      await handle.close();
    }
  }
}
