import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import type { Redis } from 'ioredis';
import type { InferFn, ModelCatalog } from '../../shared/infer/ports.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { closeRedis, connectRedis, createRedis } from '../../shared/runtime/redis.ts';
import { assertUsableRedis } from '../../shared/runtime/redis-checks.ts';
import { RedisLink } from '../../shared/runtime/redis-link.ts';
import { Announcer } from './announcer.ts';
import { CancelWatch } from './cancel-watch.ts';
import { HeldRequests } from './held-requests.ts';
import { ModelConsumer } from './model-consumer.ts';
import { ReplySender } from './reply-sender.ts';

export interface ConsumerOptions {
  readonly redisUrl: string;
  /** What runs the requests, and which models it has. Stays the caller's, who closes it after the consumer. */
  readonly engine: { readonly infer: InferFn; readonly catalog: ModelCatalog };
  readonly logger: Logger;
  /** Rows a model that this worker holds at one time, at least. Default 128, or 4 x max_batch_size where that is more. */
  readonly targetRows?: number;
  /** Bytes of tensors a model that it holds at one time, about. Default 256 MiB. */
  readonly maxBytesInHand?: number;
  /** For the first connection. Default 5000. */
  readonly connectTimeoutMs?: number;
}

export interface Consumer {
  readonly workerId: string;
  /** Whether the worker can take work now; the reason when not. */
  ready(): { ok: true } | { ok: false; reason: string };
  /** Requests taken and not answered yet. */
  inHand(): number;
  /**
   * Takes nothing more, gives back at once what has not started, answers what runs, and leaves. After `graceMs` it leaves
   * in any case; what then still ran comes to another worker by its expired lock.
   */
  close(graceMs: number): Promise<void>;
}

/** Longer than BullMQ's blocking read, which is up to 10 s, on the connections that it copies from ours. */
const SILENCE_MS = 15_000;
const MODELS_CHECK_MS = 250;
const UNLOAD_GRACE_MS = 30_000;

/**
 * Joins the pool: drains the queue of every model that the engine has ready, now or later.
 * @throws InferError UNAVAILABLE when Redis cannot be reached, INVALID_ARGUMENT when it must not be used as it is.
 */
export async function createConsumer(options: ConsumerOptions): Promise<Consumer> {
  const { redisUrl: url, logger, connectTimeoutMs } = options;
  const redis = createRedis({ url, name: 'millrace-worker', silenceMs: SILENCE_MS, logger });
  const replyRedis = createRedis({ url, name: 'millrace-answers', silenceMs: SILENCE_MS, logger });
  try {
    await connectRedis(redis, connectTimeoutMs);
    await assertUsableRedis(redis);
    await connectRedis(replyRedis, connectTimeoutMs);
    const link = new RedisLink(redis, logger);
    await link.start();
    const consumer = new PoolConsumer({ ...options, redis, replyRedis, link });
    await consumer.start();
    return consumer;
  } catch (error) {
    redis.disconnect();
    replyRedis.disconnect();
    throw error;
  }
}

interface Parts extends ConsumerOptions {
  readonly redis: Redis;
  readonly replyRedis: Redis;
  readonly link: RedisLink;
}

class PoolConsumer implements Consumer {
  readonly workerId = `w${randomBytes(9).toString('base64url')}`;
  readonly #parts: Parts;
  readonly #held = new HeldRequests();
  readonly #replies: ReplySender;
  readonly #cancels: CancelWatch;
  readonly #announcer: Announcer;
  readonly #consumers = new Map<string, ModelConsumer>();
  #timer: NodeJS.Timeout | undefined;
  #closing: Promise<void> | undefined;

  constructor(parts: Parts) {
    const { redis, replyRedis, link, logger, engine } = parts;
    this.#parts = parts;
    this.#replies = new ReplySender({ redis: replyRedis, logger, onStorageFull: () => this.#freePayloads() });
    this.#cancels = new CancelWatch(redis, link, this.#held, logger);
    this.#announcer = new Announcer({ redis, link, catalog: engine.catalog, workerId: this.workerId, logger });
  }

  async start(): Promise<void> {
    this.#followModels();
    await this.#announcer.start();
    this.#cancels.start();
    this.#timer = setInterval(() => this.#followModels(), MODELS_CHECK_MS);
    this.#timer.unref();
  }

  ready(): { ok: true } | { ok: false; reason: string } {
    const reason = this.#closing ? 'the worker is shutting down' : this.#parts.link.fault();
    return reason === undefined ? { ok: true } : { ok: false, reason };
  }

  inHand(): number {
    return this.#held.count;
  }

  close(graceMs: number): Promise<void> {
    this.#closing ??= this.#close(graceMs);
    return this.#closing;
  }

  async #close(graceMs: number): Promise<void> {
    const { redis, replyRedis, link, logger } = this.#parts;
    clearInterval(this.#timer);
    const consumers = [...this.#consumers.values()];
    const drained = (async () => {
      await Promise.all(consumers.map((consumer) => consumer.drain()));
      this.#held.giveBackWaiting();
      await this.#announcer.drain();
      await Promise.all(consumers.map((consumer) => consumer.close()));
      await this.#announcer.close();
    })();
    if (!(await within(drained, graceMs))) {
      logger.warn({ requests: this.#held.count }, 'worker left before its work was done, others will take it over');
    }
    this.#cancels.close();
    link.close();
    await Promise.all([closeRedis(redis), closeRedis(replyRedis)]);
  }

  /** One consumer for each model with a ready version. */
  #followModels(): void {
    const { catalog } = this.#parts.engine;
    const ready = new Set<string>();
    for (const { name, state } of catalog.list()) if (state === 'READY') ready.add(name);
    for (const name of ready) if (!this.#consumers.has(name)) this.#open(name);
    for (const [name, consumer] of this.#consumers) if (!ready.has(name)) this.#drop(name, consumer);
  }

  #open(model: string): void {
    const { redis, link, engine, logger, targetRows = 128, maxBytesInHand = 256 * 1024 * 1024 } = this.#parts;
    const { maxBatchSize, versions, config } = engine.catalog.resolve(model, '');
    const instances = config.instanceGroup.reduce((sum, { count, gpus }) => sum + count * Math.max(1, gpus.length), 0);
    const consumer = new ModelConsumer({
      model,
      redis,
      link,
      logger,
      infer: engine.infer,
      replies: this.#replies,
      held: this.#held,
      limits: { targetRows: Math.max(targetRows, 4 * maxBatchSize), maxBytes: maxBytesInHand },
      batched: maxBatchSize > 0,
      oneAtATime: versions.length * instances === 1,
      workerName: `${hostname()}:${process.pid}`,
    });
    this.#consumers.set(model, consumer);
    consumer.start();
  }

  /** The model was unloaded; what it still has in hand the engine answers. */
  #drop(model: string, consumer: ModelConsumer): void {
    this.#consumers.delete(model);
    const closed = consumer.drain().then(() => consumer.close());
    within(closed, UNLOAD_GRACE_MS).catch((error: unknown) => {
      this.#parts.logger.warn({ model, error: String(error) }, 'queue worker not closed');
    });
  }

  #freePayloads(): void {
    for (const consumer of this.#consumers.values()) consumer.freePayloads();
  }
}

/** Whether the work ended in time. */
async function within(work: Promise<void>, timeoutMs: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<boolean>((resolve) => {
    timer = setTimeout(resolve, timeoutMs, false);
  });
  try {
    return await Promise.race([work.then(() => true), timeout]);
  } finally {
    clearTimeout(timer);
  }
}
