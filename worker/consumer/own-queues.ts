import type { Redis } from 'ioredis';
import type { Logger } from '../../shared/runtime/logger.ts';
import { removeWorkerQueue, WorkerQueueSweep } from '../../shared/runtime/worker-queues.ts';
import { WORKER_QUEUES_KEY } from '../../shared/wire/names.ts';

const TELL_AGAIN_MS = 5000;

/** Keeps the list of queues that belong to single workers: this one's are on it, and those of lost ones go. */
export class OwnQueues {
  readonly #redis: Redis;
  readonly #worker: string;
  readonly #logger: Logger;
  readonly #sweep: WorkerQueueSweep;
  #told = new Set<string>();
  #toldMs = -Infinity;

  constructor(redis: Redis, worker: string, logger: Logger) {
    this.#redis = redis;
    this.#worker = worker;
    this.#logger = logger;
    this.#sweep = new WorkerQueueSweep(redis, logger);
  }

  /** Called again and again once this worker is announced; does what is due. `mine` are the queues that it takes from. */
  async tend(mine: readonly string[]): Promise<void> {
    const isOld = performance.now() - this.#toldMs >= TELL_AGAIN_MS; // Redis may have lost the list
    if (isOld || mine.some((queue) => !this.#told.has(queue))) await this.tell(mine);
    await this.#sweep.tend(this.#worker);
  }

  /** Puts the queues on the list. */
  async tell(mine: readonly string[]): Promise<void> {
    this.#toldMs = performance.now();
    this.#told = new Set(mine);
    if (mine.length === 0) return;
    try {
      await this.#redis.hset(WORKER_QUEUES_KEY, Object.fromEntries(mine.map((queue) => [queue, this.#worker])));
    } catch (error) {
      this.#told.clear();
      throw error;
    }
  }

  /** Removes a queue that this worker does not take from any more, with all that is in it. */
  async remove(queue: string): Promise<void> {
    this.#told.delete(queue);
    await removeWorkerQueue(this.#redis, queue, this.#logger);
  }
}
