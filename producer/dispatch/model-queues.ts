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

  /** @param version '' for the queue of the model itself */
  of(model: string, version = ''): Queue {
    const name = queueName(model, version);
    let queue = this.#queues.get(name);
    if (!queue) {
      queue = new Queue(name, {
        connection: this.#redis,
        prefix: QUEUE_PREFIX,
        streams: { events: { maxLen: EVENTS_MAX_LENGTH } },
        defaultJobOptions: JOB_OPTIONS,
      });
      queue.on('error', (error) => this.#logger.debug({ model, error: error.message }, 'queue error'));
      this.#queues.set(name, queue);
    }
    return queue;
  }

  async close(): Promise<void> {
    await Promise.all([...this.#queues.values()].map((queue) => queue.close()));
  }
}
