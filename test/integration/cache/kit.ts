import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { CountingDispatcher } from '../../../producer/dispatch/counting-dispatcher.ts';
import { createQueueDispatcher } from '../../../producer/dispatch/queue-dispatcher.ts';
import { DEFAULT_HTTP_SETTINGS } from '../../../producer/http/http-settings.ts';
import type { RedisCacheSettings } from '../../../producer/service/cache/cache-settings.ts';
import { RedisStore } from '../../../producer/service/cache/redis-store.ts';
import type { ResponseStore } from '../../../producer/service/cache/response-store.ts';
import { createServices, type MeasuredDispatcher, type Services } from '../../../producer/service/services.ts';
import { Call } from '../../../shared/infer/call.ts';
import { NO_PARAMETERS } from '../../../shared/infer/request.ts';
import { silentLogger } from '../../../shared/runtime/logger.ts';
import { createConsumer } from '../../../worker/consumer/create-consumer.ts';
import type { Engine } from '../../../worker/engine/engine.ts';
import type { RedisServer } from '../../support/redis.ts';
import { f32, floatsOf, startEngine } from '../engine/kit.ts';

/** Parts that a test opens, closed in the order of their opening, newest first. */
export class Opened {
  readonly #closers: (() => Promise<void>)[] = [];

  add(close: () => Promise<void>): void {
    this.#closers.unshift(close);
  }

  async close(): Promise<void> {
    for (const close of this.#closers.splice(0)) await close();
  }
}

/** Services over an engine in this process. */
export async function startServe(opened: Opened, repository: string, responseStore: ResponseStore) {
  const engine = await startRealEngine(opened, repository);
  return { engine, services: servicesOf(engine, responseStore) };
}

/** A worker with a real engine over a repository of its own. */
export async function startWorker(opened: Opened, redis: RedisServer, repository: string): Promise<Engine> {
  mkdirSync(repository, { recursive: true });
  const engine = await startRealEngine(opened, repository);
  const { infer, catalog, control } = engine;
  const consumer = await createConsumer({
    redisUrl: redis.url,
    engine: { infer, catalog, control, takeTurns: (turns) => engine.takeTurns(turns) },
    logger: silentLogger,
  });
  opened.add(() => consumer.close(5000));
  return engine;
}

/** All models of the repository, to be loaded and unloaded at will. */
export async function startRealEngine(opened: Opened, repository: string, identities = true): Promise<Engine> {
  const started = await startEngine([repository], { controlMode: 'explicit', loadAtStart: ['*'], identities });
  opened.add(() => started.close());
  return started.engine;
}

/** Services over the queue. */
export async function startProducer(
  opened: Opened,
  redis: RedisServer,
  responseStore: ResponseStore,
): Promise<Services> {
  const queue = await createQueueDispatcher({ redisUrl: redis.url, logger: silentLogger });
  opened.add(() => queue.close(5000));
  return servicesOf(new CountingDispatcher(queue), responseStore);
}

export async function openRedisStore(
  opened: Opened,
  redis: RedisServer,
  settings: Partial<RedisCacheSettings> = {},
): Promise<RedisStore> {
  const store = new RedisStore(
    {
      kind: 'redis',
      connection: { host: '127.0.0.1', port: redis.port, db: 0 },
      ttlMs: 60_000,
      maxEntryBytes: 100_000,
      timeoutMs: 2000,
      ...settings,
    },
    silentLogger,
  );
  opened.add(() => store.close());
  await store.start();
  return store;
}

function servicesOf(dispatcher: MeasuredDispatcher, responseStore: ResponseStore): Services {
  const settings = DEFAULT_HTTP_SETTINGS;
  return createServices({ dispatcher, responseStore, settings, logger: silentLogger, version: '0.0.0-test' });
}

/** The first number of the answer to one number. */
export async function ask(services: Services, value: number, model = 'm', version = ''): Promise<number | undefined> {
  const nowMs = performance.now();
  const input = model === 'ens' ? 'IN' : 'x';
  const response = await services.infer(
    { id: '', model, version, inputs: [f32(input, [1, 1], [value])], outputs: [], parameters: NO_PARAMETERS },
    new Call('c', nowMs, nowMs + 15_000),
  );
  return floatsOf(response.outputs[0])[0];
}

/** Hits and misses of a version. */
export function countsOf(services: Services, model = 'm', version = '1') {
  const stats = [...services.stats()].find((one) => one.model === model && one.version === version);
  return { hits: stats?.cacheHit.count ?? 0, misses: stats?.cacheMiss.count ?? 0, runs: stats?.executionCount ?? 0 };
}

export const modelDir = (repository: string, model = 'm') => join(repository, model);
