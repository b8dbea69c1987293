import { createQueueDispatcher, type QueueDispatcher } from '../../../producer/dispatch/queue-dispatcher.ts';
import type { QueueDispatcherOptions } from '../../../producer/dispatch/queue-dispatcher.ts';
import { silentLogger } from '../../../shared/runtime/logger.ts';
import { type Consumer, createConsumer } from '../../../worker/consumer/create-consumer.ts';
import { type RedisServer, startRedis, type RedisServerOptions, until } from '../../support/redis.ts';
import { FakeEngine, type FakeModel } from '../../support/worker.ts';

/** A Redis of its own with producers and workers in this process; everything is closed by `close`. */
export class Pool {
  readonly redis: RedisServer;
  readonly #open: { close(graceMs: number): Promise<void> }[] = [];

  constructor(redis: RedisServer) {
    this.redis = redis;
  }

  async producer(options: Partial<QueueDispatcherOptions> = {}): Promise<QueueDispatcher> {
    const dispatcher = await createQueueDispatcher({ redisUrl: this.redis.url, logger: silentLogger, ...options });
    this.#open.push(dispatcher);
    return dispatcher;
  }

  async worker(models: readonly FakeModel[]): Promise<{ engine: FakeEngine; consumer: Consumer }> {
    const engine = new FakeEngine(models);
    const consumer = await createConsumer({ redisUrl: this.redis.url, engine, logger: silentLogger });
    this.#open.push(consumer);
    return { engine, consumer };
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
