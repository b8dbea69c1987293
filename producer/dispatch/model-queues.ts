import { Queue } from 'bullmq';
import type { Redis } from 'ioredis';
import type { Logger } from '../../shared/runtime/logger.ts';
import { removeWorkerQueue } from '../../shared/runtime/worker-queues.ts';
import { QUEUE_PREFIX, queueName } from '../../shared/wire/names.ts';
import { EVENTS_MAX_LENGTH, JOB_OPTIONS } from '../../shared/wire/queue-options.ts';

/** The BullMQ queues of the models and versions, one each, opened when first used and all on one connection. */
export class ModelQueues {
  readonly #redis: Redis;
  readonly #logger: Logger;
  readonly #queues = new Map<string, Queue>();
  /** The names of those that one worker alone takes from, by worker. */
  readonly #ofWorkers = new Map<string, Set<string>>();

  constructor(redis: Redis, logger: Logger) {
    this.#redis = redis;
    this.#logger = logger;
  }

  /**
   * @param version '' for the queue of the model itself
   * @param worker the one that is to get it, where only one may. Then a job is tried once: what it has changed at that worker
   *   must not change twice.
   */
  of(model: string, version = '', worker = ''): Queue {
    const name = queueName(model, version, worker);
    let queue = this.#queues.get(name);
    if (!queue) {
      queue = new Queue(name, {
        connection: this.#redis,
        prefix: QUEUE_PREFIX,
        streams: { events: { maxLen: EVENTS_MAX_LENGTH } },
        defaultJobOptions: worker === '' ? JOB_OPTIONS : { ...JOB_OPTIONS, attempts: 1 },
      });
      queue.on('error', (error) => this.#logger.debug({ model, error: error.message }, 'queue error'));
      this.#queues.set(name, queue);
      if (worker !== '') this.#ofWorkers.set(worker, (this.#ofWorkers.get(worker) ?? new Set()).add(name));
    }
    return queue;
  }

  /** Removes the queues of a worker that is gone, with whatever was sent after it had left. */
  removeOf(worker: string): void {
    const names = this.#ofWorkers.get(worker) ?? [];
    this.#ofWorkers.delete(worker);
    for (const name of names) void this.#remove(name);
  }

  async #remove(name: string): Promise<void> {
    const queue = this.#queues.get(name);
    this.#queues.delete(name);
    try {
      await queue?.close();
      await removeWorkerQueue(this.#redis, name, this.#logger);
    } catch (error) {
      this.#logger.warn({ queue: name, error: String(error) }, 'queue of a lost worker not removed');
    }
  }

  async close(): Promise<void> {
    await Promise.all([...this.#queues.values()].map((queue) => queue.close()));
  }
}
