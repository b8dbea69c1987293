import { Queue } from 'bullmq';
import type { Redis } from 'ioredis';
import { QUEUE_PREFIX, WORKER_QUEUES_KEY, workerKey } from '../wire/names.ts';
import type { Logger } from './logger.ts';

const SWEEP_MS = 10_000;

/**
 * Removes the queues of single workers that are gone: nobody else takes from them, and who waited for an answer has been
 * told. Workers and producers all do it, so that it happens while any of them is there.
 */
export class WorkerQueueSweep {
  readonly #redis: Redis;
  readonly #logger: Logger;
  #sweptMs = -Infinity;

  constructor(redis: Redis, logger: Logger) {
    this.#redis = redis;
    this.#logger = logger;
  }

  /** Called again and again; does what is due. `self` is the caller where it is a worker. */
  async tend(self = ''): Promise<void> {
    const nowMs = performance.now();
    if (nowMs - this.#sweptMs < SWEEP_MS) return;
    this.#sweptMs = nowMs;
    for (const [queue, worker] of Object.entries(await this.#redis.hgetall(WORKER_QUEUES_KEY))) {
      if (worker === self || (await this.#redis.exists(workerKey(worker))) === 1) continue;
      this.#logger.info({ queue }, 'queue of a lost worker removed');
      await removeWorkerQueue(this.#redis, queue, this.#logger);
    }
  }
}

/** Removes a queue and all that is in it, and takes it off the list; several may do it at once. */
export async function removeWorkerQueue(redis: Redis, name: string, logger: Logger): Promise<void> {
  const queue = new Queue(name, { connection: redis, prefix: QUEUE_PREFIX, skipMetasUpdate: true });
  queue.on('error', (error) => logger.debug({ queue: name, error: error.message }, 'queue error'));
  try {
    await queue.obliterate({ force: true });
    await redis.hdel(WORKER_QUEUES_KEY, name);
  } finally {
    await queue.close();
  }
}
