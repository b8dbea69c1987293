import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import type { Redis } from 'ioredis';
import type { ModelStats } from '../../shared/infer/model-stats.ts';
import type { InferFn, ModelCatalog, ModelControl } from '../../shared/infer/ports.ts';
import type { ModelConfig } from '../../shared/proto/generated/model_config_pb.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { closeRedis, connectRedis, createRedis } from '../../shared/runtime/redis.ts';
import { assertUsableRedis } from '../../shared/runtime/redis-checks.ts';
import { keepCopies } from '../../shared/runtime/redis-copies.ts';
import { RedisLink } from '../../shared/runtime/redis-link.ts';
import { within } from '../../shared/runtime/within.ts';
import { QUEUE_PREFIX, VERSION_QUEUES_KEY } from '../../shared/wire/names.ts';
import type { QueueKeys } from '../../shared/wire/queue-keys.ts';
import { Announcer } from './announcer.ts';
import { CancelWatch } from './cancel-watch.ts';
import { fetchLimitsOf, fetchPolicyOf, ownQueueLimits } from './fetch-policy.ts';
import { HeldRequests } from './held-requests.ts';
import { JobRecords } from './job-records.ts';
import { instancesOf, meteredEngineOf } from './metered-engine.ts';
import { linger, LINGER_MS } from './linger.ts';
import { ModelConsumer } from './model-consumer.ts';
import { OwnQueues } from './own-queues.ts';
import { PoolControl } from './pool-control.ts';
import { type ModelActivity, Pulse, type PulseOptions } from './pulse.ts';
import { type QueueOf, queuesToTake } from './queues-to-take.ts';
import { ReplySender } from './reply-sender.ts';

export interface ConsumerOptions extends Pick<PulseOptions, 'gpus'> {
  readonly redisUrl: string;
  /** What runs the requests, and which models it has. Stays the caller's, who closes it after the consumer. */
  readonly engine: WorkerEngine;
  readonly logger: Logger;
  /** Rows a model that this worker holds at one time, at least. Default 128, or 4 x max_batch_size where that is more. */
  readonly targetRows?: number;
  /** Bytes of tensors a model that it holds at one time, about. Default 256 MiB. */
  readonly maxBytesInHand?: number;
  /** For the first connection. Default 5000. */
  readonly connectTimeoutMs?: number;
  /** How long its models stay known when no worker serves them any more, in ms. Default 7 days. */
  readonly retentionMs?: number;
  /** Signs what it writes and checks what it takes; nothing is signed unless given. */
  readonly keys?: QueueKeys | undefined;
  /** The pool asks this worker to leave: `close` is to be called. */
  readonly onDrain?: () => void;
}

/** An engine, as far as the pool sees it. */
export interface WorkerEngine {
  readonly infer: InferFn;
  readonly catalog: ModelCatalog;
  /** Given where models are loaded and unloaded on request. */
  readonly control?: ModelControl;
  /** What has run so far, by which the worker's speed is measured. */
  stats?(): Iterable<ModelStats>;
  /** Loads a model that a request has come for, where models are loaded on demand. */
  wake?(model: string): Promise<void> | undefined;
  /** From now on replacing a model waits for its turn, which the answer ends. */
  takeTurns?(turns: { take(model: string): Promise<() => Promise<void>> }): void;
}

export interface Consumer {
  readonly workerId: string;
  /** Whether the worker can take work now; the reason when not. */
  ready(): { ok: true } | { ok: false; reason: string };
  /** Requests taken and not answered yet. */
  inHand(): number;
  /** When it last had a job in hand or a model to load, on `performance.now()`: now while it has, its start before any. */
  lastWorkMs(): number;
  /** Jobs that wait in the queues that it takes from. @throws when Redis does not say */
  waitingJobs(): Promise<number>;
  /**
   * Takes nothing more, gives back at once what has not started, answers what runs, and leaves. After `graceMs` it leaves
   * in any case; what then still ran comes to another worker by its expired lock.
   */
  close(graceMs: number): Promise<void>;
}

const SILENCE_MS = 5000;
/** Longer than BullMQ's blocking read, which is up to 10 s, on the connections that it copies from ours. */
const COPY_SILENCE_MS = 15_000;
const MODELS_CHECK_MS = 250;
const UNLOAD_GRACE_MS = 30_000;
/** Version queues that no producer has used for so long are left, in ms. */
const FORGET_QUEUES_MS = 3_600_000;

/**
 * Joins the pool: drains the queue of every model that the engine has ready, now or later.
 * @throws InferError UNAVAILABLE when Redis cannot be reached, INVALID_ARGUMENT when it must not be used as it is.
 */
export async function createConsumer(options: ConsumerOptions): Promise<Consumer> {
  const { redisUrl: url, logger, connectTimeoutMs } = options;
  const redis = createRedis({ url, name: 'millrace-worker', silenceMs: SILENCE_MS, logger });
  const replyRedis = createRedis({ url, name: 'millrace-answers', silenceMs: SILENCE_MS, logger });
  const copies = keepCopies(redis, COPY_SILENCE_MS);
  try {
    await connectRedis(redis, connectTimeoutMs);
    await assertUsableRedis(redis);
    await connectRedis(replyRedis, connectTimeoutMs);
    const link = new RedisLink(redis, logger);
    await link.start();
    link.onBack(() => copies.renew());
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

interface Taken {
  readonly consumer: ModelConsumer;
  readonly config: ModelConfig;
  /** The queue is this worker's alone. */
  readonly own: boolean;
}

class PoolConsumer implements Consumer {
  readonly workerId = `w${randomBytes(9).toString('base64url')}`;
  readonly #parts: Parts;
  readonly #held = new HeldRequests();
  readonly #replies: ReplySender;
  readonly #records: JobRecords;
  readonly #cancels: CancelWatch;
  readonly #announcer: Announcer;
  readonly #pulse: Pulse;
  readonly #control: PoolControl;
  /** By the name of their queue, each with the model that it was made for. */
  readonly #consumers = new Map<string, Taken>();
  readonly #ownQueues: OwnQueues;
  readonly #leaving = new Set<Promise<unknown>>();
  /** Consumers of own queues whose model was unloaded just now, by queue; what is called takes one back. */
  readonly #lingering = new Map<string, () => Taken>();
  #versionQueues: ReadonlySet<string> = new Set();
  #lastWorkMs = performance.now();
  #timer: NodeJS.Timeout | undefined;
  #closing: Promise<void> | undefined;

  constructor(parts: Parts) {
    const { redis, replyRedis, link, logger, engine, keys } = parts;
    this.#parts = parts;
    const onStorageFull = () => this.#freePayloads();
    this.#replies = new ReplySender({ redis: replyRedis, keys, logger, onStorageFull });
    link.onRestart(() => this.#replies.renewAll());
    this.#records = new JobRecords({ redis: replyRedis, link, keys, logger, onStorageFull });
    this.#cancels = new CancelWatch(redis, link, this.#held, logger);
    const { workerId } = this;
    const { catalog, control } = engine;
    const controlled = control !== undefined;
    const { retentionMs, gpus = () => [], onDrain = () => undefined } = parts;
    this.#announcer = new Announcer({ redis, link, catalog, workerId, controlled, retentionMs, keys, logger });
    this.#pulse = new Pulse({
      redis,
      link,
      workerId,
      engine: meteredEngineOf(engine),
      activity: () => this.#activity(),
      requestsInHand: () => this.#held.count,
      gpus,
      onDrain,
      keys,
      logger,
    });
    const announce = () => this.#announcer.announce();
    const wake = (model: string) => engine.wake?.(model);
    this.#ownQueues = new OwnQueues(redis, workerId, logger);
    this.#control = new PoolControl({ redis, link, workerId, control, wake, announce, keys, logger });
  }

  async start(): Promise<void> {
    this.#parts.engine.takeTurns?.(this.#control);
    await this.#control.start();
    this.#followModels();
    await this.#ownQueues.tell(this.#ownQueueNames()); // before anybody can send to them
    await this.#announcer.start();
    this.#pulse.start();
    this.#cancels.start();
    this.#timer = setInterval(() => void this.#follow(), MODELS_CHECK_MS);
    this.#timer.unref();
  }

  ready(): { ok: true } | { ok: false; reason: string } {
    const reason = this.#closing ? 'the worker is shutting down' : this.#parts.link.fault();
    return reason === undefined ? { ok: true } : { ok: false, reason };
  }

  inHand(): number {
    return this.#held.count;
  }

  lastWorkMs(): number {
    let lastMs = this.#lastWorkMs;
    for (const { lastJobMs = 0 } of this.#activity().values()) lastMs = Math.max(lastMs, lastJobMs);
    const loads = this.#parts.engine.catalog.list().some(({ state }) => state === 'LOADING');
    this.#lastWorkMs = loads || this.#held.count > 0 ? performance.now() : lastMs;
    return this.#lastWorkMs;
  }

  async waitingJobs(): Promise<number> {
    const { redis, link } = this.#parts;
    link.assertUsable();
    const keys = [...this.#consumers.keys()].map((queue) => `${QUEUE_PREFIX}:${queue}`);
    const counts = await Promise.all(
      keys.flatMap((key) => [
        redis.llen(`${key}:wait`),
        redis.llen(`${key}:paused`),
        redis.zcard(`${key}:prioritized`),
      ]),
    );
    return counts.reduce((sum, count) => sum + count, 0);
  }

  close(graceMs: number): Promise<void> {
    this.#closing ??= this.#close(graceMs);
    return this.#closing;
  }

  async #close(graceMs: number): Promise<void> {
    const { redis, replyRedis, link, logger } = this.#parts;
    clearInterval(this.#timer);
    this.#control.close();
    const taken = [...this.#consumers.values()];
    const shared = taken.filter(({ own }) => !own).map(({ consumer }) => consumer);
    const alone = taken.filter(({ own }) => own).map(({ consumer }) => consumer);
    const ownQueues = this.#ownQueueNames();
    const drained = (async () => {
      const announced = this.#announcer.drain();
      for (const consumer of alone) consumer.leaveBehind();
      await Promise.all(shared.map((consumer) => consumer.drain()));
      this.#held.giveBackWaiting();
      await announced;
      // Until producers are sure to know, what they send to this worker alone is answered: nobody else could.
      const leave = async (consumer: ModelConsumer): Promise<void> => {
        await linger(() => consumer.activity.lastJobMs, Math.min(LINGER_MS, graceMs / 2));
        await consumer.drain();
        await consumer.close();
      };
      await Promise.all([...shared.map((consumer) => consumer.close()), ...alone.map(leave), ...this.#leaving]);
      await Promise.all([this.#announcer.close(), this.#pulse.close()]);
      await Promise.all(ownQueues.map((queue) => this.#ownQueues.remove(queue)));
    })();
    if (!(await within(drained, graceMs))) {
      logger.warn({ requests: this.#held.count }, 'worker left before its work was done, others will take it over');
    }
    this.#pulse.stop();
    this.#cancels.close();
    link.close();
    await Promise.all([closeRedis(redis), closeRedis(replyRedis)]);
  }

  async #follow(): Promise<void> {
    const { redis, link, logger } = this.#parts;
    this.#followModels();
    if (link.state.kind !== 'up') return;
    try {
      const since = Math.round(link.now() - FORGET_QUEUES_MS);
      this.#versionQueues = new Set(await redis.zrangebyscore(VERSION_QUEUES_KEY, since, '+inf'));
      await this.#ownQueues.tend(this.#ownQueueNames());
    } catch (error) {
      logger.debug({ error: String(error) }, 'lists of queues not read');
    }
  }

  #followModels(): void {
    if (this.#closing) return;
    const ready = queuesToTake(this.#parts.engine.catalog, this.workerId, this.#versionQueues);
    for (const queue of this.#consumers.keys()) if (!ready.has(queue)) this.#drop(queue);
    for (const [queue, of] of ready) {
      const { config } = this.#parts.engine.catalog.resolve(of.model, of.version);
      const known = this.#consumers.get(queue);
      // Nothing about a worker's own queue follows from the config, and what is in it must not be refused for a reload.
      if (known && (known.own || known.config === config)) continue;
      this.#drop(queue); // how many requests it may hold follows from the config
      const back = this.#lingering.get(queue)?.();
      if (back) this.#consumers.set(queue, back);
      else this.#open(queue, of);
    }
  }

  /** By model name, all its queues together. */
  #activity(): Map<string, ModelActivity> {
    const models = new Map<string, ModelActivity>();
    for (const { consumer } of this.#consumers.values()) {
      const { rows, lastJobMs } = consumer.activity;
      const known = models.get(consumer.model) ?? { rows: 0, lastJobMs: undefined };
      const last = Math.max(known.lastJobMs ?? -Infinity, lastJobMs ?? -Infinity);
      models.set(consumer.model, { rows: known.rows + rows, lastJobMs: last === -Infinity ? undefined : last });
    }
    return models;
  }

  #ownQueueNames(): string[] {
    return [...this.#consumers].filter(([, { own }]) => own).map(([queue]) => queue);
  }

  #open(queue: string, { model, version, own }: QueueOf): void {
    const { redis, link, engine, keys, logger, targetRows = 128, maxBytesInHand = 256 * 1024 * 1024 } = this.#parts;
    const ready = engine.catalog.resolve(model, version);
    const { maxBatchSize, versions, config } = ready;
    const instances = instancesOf(config);
    const consumer = new ModelConsumer({
      model,
      version,
      worker: own ? this.workerId : '',
      redis,
      link,
      keys,
      logger,
      infer: engine.infer,
      replies: this.#replies,
      records: this.#records,
      held: this.#held,
      limits: own ? ownQueueLimits(maxBytesInHand) : fetchLimitsOf(ready, targetRows, maxBytesInHand),
      batched: !own && maxBatchSize > 0, // a request of a sequence is one row
      slots: versions.length * instances,
      inOrder: !own && instances > 0 && fetchPolicyOf(ready) === undefined,
      workerName: `${hostname()}:${process.pid}`,
    });
    this.#consumers.set(queue, { consumer, config, own });
    consumer.start();
  }

  /** The model was unloaded or replaced; what it still has in hand the engine answers. */
  #drop(queue: string): void {
    const taken = this.#consumers.get(queue);
    if (!taken) return;
    this.#consumers.delete(queue);
    const closed = this.#closeConsumer(queue, taken);
    const left = within(closed, UNLOAD_GRACE_MS)
      .catch((error: unknown) => {
        this.#parts.logger.warn({ queue, error: String(error) }, 'queue worker not closed');
      })
      .finally(() => this.#leaving.delete(left));
    this.#leaving.add(left);
  }

  async #closeConsumer(queue: string, taken: Taken): Promise<void> {
    if (taken.own && (await this.#isTakenBack(queue, taken))) return;
    await taken.consumer.drain();
    await taken.consumer.close();
    if (taken.own && !this.#consumers.has(queue)) await this.#ownQueues.remove(queue);
  }

  /** Whether the model has come back before producers can be sure to know that it was gone. */
  async #isTakenBack(queue: string, taken: Taken): Promise<boolean> {
    const back = await new Promise<boolean>((resolve) => {
      const timer = setTimeout(resolve, LINGER_MS, false).unref();
      this.#lingering.set(queue, () => {
        clearTimeout(timer);
        this.#lingering.delete(queue);
        resolve(true);
        return taken;
      });
    });
    if (!back) this.#lingering.delete(queue);
    return back;
  }

  #freePayloads(): void {
    for (const { consumer } of this.#consumers.values()) consumer.freePayloads();
  }
}
