import { Queue } from 'bullmq';
import type { Redis } from 'ioredis';
import type { Logger } from '../../shared/runtime/logger.ts';
import { QUEUE_PREFIX, queueName } from '../../shared/wire/names.ts';
import { EVENTS_MAX_LENGTH, JOB_OPTIONS } from '../../shared/wire/queue-options.ts';

/** The BullMQ queues of the models and versions, one each, opened when first used and all on one connection. */
export class ModelQueues {
  readonly #redis: Redis;
  readonly #logger: Logger;
  readonly #queues = new Map<string, Queue>();

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
    }
    return queue;
  }

  /** Removes the queue of a worker that is gone, with whatever was sent after it had left. */
  async remove(name: string): Promise<void> {
    const queue = this.#queues.get(name);
    if (!queue) return;
    this.#queues.delete(name);
    try {
      await queue.obliterate({ force: true });
    } catch (error) {
      this.#logger.warn({ queue: name, error: String(error) }, 'queue of a lost worker not removed');
    }
    await queue.close();
  }

  async close(): Promise<void> {
    await Promise.all([...this.#queues.values()].map((queue) => queue.close()));
  }
}
