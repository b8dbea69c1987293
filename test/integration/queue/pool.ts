import { createQueueDispatcher, type QueueDispatcher } from '../../../producer/dispatch/queue-dispatcher.ts';
import type { QueueDispatcherOptions } from '../../../producer/dispatch/queue-dispatcher.ts';
import { silentLogger } from '../../../shared/runtime/logger.ts';
import { type Consumer, type ConsumerOptions, createConsumer } from '../../../worker/consumer/create-consumer.ts';
import { type RedisServer, startRedis, type RedisServerOptions, until } from '../../support/redis.ts';
import { FakeEngine, type FakeModel } from '../../support/worker.ts';

/** A Redis of its own with producers and workers in this process; everything is closed by `close`. */
export class Pool {
  readonly redis: RedisServer;
  readonly #workers: Consumer[] = [];
  readonly #open: { close(graceMs: number): Promise<void> }[] = [];

  constructor(redis: RedisServer) {
    this.redis = redis;
  }

  async producer(options: Partial<QueueDispatcherOptions> = {}): Promise<QueueDispatcher> {
    const dispatcher = await createQueueDispatcher({ redisUrl: this.redis.url, logger: silentLogger, ...options });
    this.#open.push(dispatcher);
    return dispatcher;
  }

  async worker(
    models: readonly FakeModel[],
    options: Partial<ConsumerOptions> = {},
  ): Promise<{ engine: FakeEngine; consumer: Consumer }> {
    const engine = new FakeEngine(models);
    const consumer = await createConsumer({ redisUrl: this.redis.url, engine, logger: silentLogger, ...options });
    this.#open.push(consumer);
    this.#workers.push(consumer);
    return { engine, consumer };
  }

  /** Lets a worker leave that was started before, by its number from 0. */
  async leave(worker: number): Promise<void> {
    await this.#workers[worker]!.close(1000);
  }

  async close(): Promise<void> {
    await Promise.all(this.#open.splice(0).map((part) => part.close(0)));
    await this.redis.stop();
  }
}

export async function startPool(options?: RedisServerOptions): Promise<Pool> {
  return new Pool(await startRedis(options));
}

/** Waits until the producer knows that a worker has the model ready. */
export async function knows(dispatcher: QueueDispatcher, model: string): Promise<void> {
  await until(`the producer knows ${model}`, () =>
    dispatcher.catalog.list().some((state) => state.name === model && state.state === 'READY'),
  );
}
