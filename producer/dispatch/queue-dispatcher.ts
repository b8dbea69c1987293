import { randomBytes } from 'node:crypto';
import type { Queue } from 'bullmq';
import type { Redis } from 'ioredis';
import { InferError } from '../../shared/errors.ts';
import type { Call } from '../../shared/infer/call.ts';
import type { Dispatcher } from '../../shared/infer/ports.ts';
import { type InferRequest, rowsOf } from '../../shared/infer/request.ts';
import type { InferResponse } from '../../shared/infer/response.ts';
import { sequencePartOf } from '../../shared/infer/sequence.ts';
import { type Clock, systemClock } from '../../shared/runtime/clock.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { totalBytesOf } from '../../shared/tensor/tensor.ts';
import type { TrafficStore } from '../../shared/traffic/traffic-store.ts';
import { closeRedis, connectRedis, createRedis } from '../../shared/runtime/redis.ts';
import { assertUsableRedis } from '../../shared/runtime/redis-checks.ts';
import { RedisLink } from '../../shared/runtime/redis-link.ts';
import { within } from '../../shared/runtime/within.ts';
import { cancelKey, replyKey } from '../../shared/wire/names.ts';
import type { QueueKeys } from '../../shared/wire/queue-keys.ts';
import { PoolMonitor } from '../pool/pool-monitor.ts';
import type { JobPool } from '../service/jobs/job-queue.ts';
import { CancelWriter } from './cancel-writer.ts';
import { CatalogFeed } from './catalog-feed.ts';
import { explainDeadline } from './explain-deadline.ts';
import { FreePlaces } from './free-places.ts';
import { ModelLanes } from './model-lanes.ts';
import { ModelQueues } from './model-queues.ts';
import { type Gauge, type PendingRequest, PendingRequests } from './pending-requests.ts';
import type { QueueCatalog } from './queue-catalog.ts';
import { QueueControl } from './queue-control.ts';
import { RedisTrafficStore } from './redis-traffic-store.ts';
import { BLOCK_MS, ReplyListener } from './reply-listener.ts';
import { SequenceHolders } from './sequence-holders.ts';
import { SequenceLines } from './sequence-lines.ts';
import { StrandedRequests } from './stranded-requests.ts';
import { createUpkeep } from './upkeep.ts';
import { VersionQueues } from './version-queues.ts';

export interface QueueDispatcherOptions {
  readonly redisUrl: string;
  readonly logger: Logger;
  readonly clock?: Clock;
  /** Requests that may wait for an answer at one time; more are refused. Default 10,000. */
  readonly maxRequestsInFlight?: number;
  /** Bytes of their tensors. Default 256 MiB. */
  readonly maxBytesInFlight?: number;
  /** Requests a bundle. Default 32. */
  readonly maxBundleRequests?: number;
  /** How long a request may wait for company under load, in ms. Default 2. */
  readonly bundleWindowMs?: number;
  /** For the first connection. Default 5000. */
  readonly connectTimeoutMs?: number;
  /** In which what waits is to be worked off, by which workers are wished for. Default 1000. */
  readonly latencyGoalMs?: number;
  /** Most workers that are wished for. Default 100. */
  readonly maxDesiredWorkers?: number;
  /** Whether it is ready while no worker is there, as requests then wait for one. Default false. */
  readonly readyWithoutWorkers?: boolean;
  /** Signs what it writes and checks what it reads; nothing is signed unless given. */
  readonly keys?: QueueKeys | undefined;
}

/** What the producer's metrics and dashboard want beside the port. */
export interface QueueDispatcher extends Dispatcher {
  /** How requests are spread over versions in the whole pool. */
  readonly traffic: TrafficStore;
  readonly catalog: QueueCatalog;
  /** The workers, and how many there should be. */
  readonly monitor: PoolMonitor;
  readonly pool: JobPool;
  /** All queues of the models, versions and single workers, for the dashboard. They stay the dispatcher's, which closes them. */
  queues(): readonly Queue[];
  stats(): { readonly requestsInFlight: number; readonly bytesInFlight: number; readonly lateAnswers: number };
}

const MAX_BUNDLE_BYTES = 8 * 1024 * 1024;
const MAX_ADDS_IN_FLIGHT = 4;
const SILENCE_MS = 5000;
/** Longest time to remove what this process alone uses in Redis, in ms. */
const TIDY_MS = 1000;
/** After a restart of Redis, answers that were written before are read first. */
const RESEND_AFTER_MS = 1000;

/**
 * Connects to the pool behind Redis.
 * @throws InferError UNAVAILABLE when Redis cannot be reached, INVALID_ARGUMENT when it must not be used as it is.
 */
export async function createQueueDispatcher(options: QueueDispatcherOptions): Promise<QueueDispatcher> {
  const { redisUrl: url, logger } = options;
  const producer = `p${randomBytes(9).toString('base64url')}`;
  const redis = createRedis({ url, name: 'millrace-producer', silenceMs: SILENCE_MS, logger });
  const reader = createRedis({ url, name: 'millrace-replies', silenceMs: BLOCK_MS + SILENCE_MS, logger });
  try {
    await connectRedis(redis, options.connectTimeoutMs);
    await assertUsableRedis(redis);
    await connectRedis(reader, options.connectTimeoutMs);
    const link = new RedisLink(redis, logger);
    await link.start();
    const feed = new CatalogFeed(redis, link, logger, options.keys);
    await feed.start();
    const traffic = new RedisTrafficStore(redis, link, logger, options.keys);
    await traffic.start();
    const dispatcher = new RedisQueueDispatcher({ ...options, redis, reader, link, feed, traffic, producer });
    dispatcher.start();
    return dispatcher;
  } catch (error) {
    redis.disconnect();
    reader.disconnect();
    throw error;
  }
}

interface Parts extends QueueDispatcherOptions {
  readonly redis: Redis;
  readonly reader: Redis;
  readonly link: RedisLink;
  readonly feed: CatalogFeed;
  readonly traffic: RedisTrafficStore;
  readonly producer: string;
}

class RedisQueueDispatcher implements QueueDispatcher {
  readonly catalog: QueueCatalog;
  readonly control: QueueControl;
  readonly traffic: RedisTrafficStore;
  readonly pool: JobPool;
  readonly monitor: PoolMonitor;
  readonly #parts: Parts;
  readonly #pending = new PendingRequests((request) => this.#sequences.settled(request));
  readonly #sequences: SequenceLines;
  readonly #listener: ReplyListener;
  readonly #cancels: CancelWriter;
  readonly #lanes: ModelLanes;
  readonly #waking = new Map<string, Promise<void>>();
  readonly #queues: ModelQueues;
  readonly #stranded: StrandedRequests;
  readonly #versionQueues: VersionQueues;
  readonly #gauges = new Map<string, Gauge>();
  readonly #maxRequests: number;
  readonly #maxBytes: number;
  #sequence = 0;
  #closing = false;

  constructor(parts: Parts) {
    const { redis, reader, link, producer, keys, logger, feed } = parts;
    this.#parts = parts;
    this.catalog = feed.catalog;
    this.traffic = parts.traffic;
    this.control = new QueueControl({ redis, link, feed, keys });
    this.#versionQueues = new VersionQueues(redis, link, feed.catalog, logger);
    this.#maxRequests = parts.maxRequestsInFlight ?? 10_000;
    this.#maxBytes = parts.maxBytesInFlight ?? 256 * 1024 * 1024;
    this.#queues = new ModelQueues(redis, logger);
    const { latencyGoalMs = 1000, maxDesiredWorkers = 100 } = parts;
    this.monitor = new PoolMonitor({
      redis,
      link,
      catalog: feed.catalog,
      latencyGoalMs,
      maxDesiredWorkers,
      keys,
      logger,
    });
    this.pool = { redis, link, keys, queues: this.#queues, versionQueues: this.#versionQueues };
    const { clock = systemClock, maxBundleRequests: maxRequests = 32, bundleWindowMs: windowMs = 2 } = parts;
    this.#lanes = new ModelLanes({
      redis,
      link,
      queues: this.#queues,
      producer,
      keys,
      clock,
      limits: { maxRequests, maxBytes: MAX_BUNDLE_BYTES, windowMs, maxAddsInFlight: MAX_ADDS_IN_FLIGHT },
      onRefused: (requests, error) => {
        for (const { sequence } of requests) this.#stranded.giveUp(sequence, error);
      },
      logger,
    });
    this.#cancels = new CancelWriter(redis, link, producer, logger);
    this.#listener = new ReplyListener({
      reader,
      commands: redis,
      link,
      producer,
      keys,
      logger,
      onReply: (reply) => {
        const request = this.#pending.get(reply.sequence);
        if (request && 'response' in reply) this.#lanes.noteAnswer(request, reply.response.timings);
        const answer = 'error' in reply ? this.#stranded.refused(reply) : reply;
        if (!answer) return;
        this.#sequences.over(answer.sequence, 'response' in answer);
        this.#pending.settle(answer);
      },
    });
    this.#sequences = new SequenceLines({
      holders: new SequenceHolders(redis, feed.catalog, new FreePlaces(feed.catalog, clock), () => feed.refresh()),
      resolve: (model, asked) => feed.catalog.resolve(model, asked),
      isAlive: (worker) => feed.catalog.isAlive(worker),
      clock,
      send: (request, maxBatchSize) => this.#lanes.push(request, maxBatchSize),
      fail: (request, error) => this.#pending.fail(request.sequence, error),
      onWorkerGone: (worker) => this.#lanes.forgetWorker(worker),
    });
    this.#stranded = new StrandedRequests({
      pending: this.#pending,
      lanes: this.#lanes,
      sequences: this.#sequences,
      queues: this.#queues,
      versionQueues: this.#versionQueues,
      feed,
      producer,
      clock,
      logger,
    });
  }

  start(): void {
    const { link, feed, redis, logger } = this.#parts;
    this.#listener.start();
    this.monitor.start();
    feed.onRead(() => this.#sequences.follow());
    feed.onRead(createUpkeep(redis, logger));
    feed.onRead(() => void this.#stranded.refuseUnloaded());
    link.onState((state) => {
      if (state.kind === 'down') this.#stranded.failUnqueued(link.fault() ?? 'the queue is not reachable');
      if (state.kind === 'up') this.#lanes.wake();
    });
    link.onRestart(() => void setTimeout(() => void this.#stranded.resendLost(), RESEND_AFTER_MS).unref());
  }

  readonly infer = (request: InferRequest, call: Call): Promise<InferResponse> => {
    return new Promise((resolve, reject) => {
      // What throws in here rejects the promise.
      this.#assertOpen(call);
      const model = this.catalog.resolve(request.model, request.version);
      const bytes = totalBytesOf(request.inputs);
      this.#assertRoom(bytes);
      const rows = rowsOf(model.maxBatchSize > 0, request.inputs);
      const idleMs = this.catalog.sequenceIdleMs(model);
      const part = idleMs === undefined ? undefined : sequencePartOf(request);
      const pending: PendingRequest = {
        sequence: (this.#sequence += 1),
        request,
        call,
        rows,
        bytes,
        bundle: '',
        queueVersion: part ? '' : this.#versionQueues.choose(model.name, request.version),
        worker: '',
        resends: 0,
        queued: false,
        settled: false,
        resolve,
        reject,
        gauge: this.#gauge(model.name, model.version),
      };
      this.#pending.add(pending);
      call.onCancel((error) => this.#abandon(pending, error));
      if (part && idleMs !== undefined) this.#sequences.push(pending, part, idleMs);
      else this.#lanes.push(pending, model.maxBatchSize);
    });
  };

  /** One load at a time for all requests that come for a model. */
  wake(model: string): Promise<void> | undefined {
    if (!this.catalog.wakeable(model)) return undefined;
    let waking = this.#waking.get(model);
    if (!waking) {
      waking = this.control.wake(model).finally(() => this.#waking.delete(model));
      waking.catch(() => undefined); // the catalog says what is wrong
      this.#waking.set(model, waking);
    }
    return waking;
  }

  ready(): { ok: true } | { ok: false; reason: string } {
    const reason = this.#closing ? 'the server is shutting down' : this.#parts.link.fault();
    if (reason !== undefined) return { ok: false, reason };
    const { readyWithoutWorkers = false } = this.#parts;
    return readyWithoutWorkers || this.catalog.hasWorkers()
      ? { ok: true }
      : { ok: false, reason: 'no worker is connected' };
  }

  pending(model: string, version: string): number {
    return this.#gauges.get(gaugeKey(model, version))?.count ?? 0;
  }

  queues(): readonly Queue[] {
    return [
      ...this.catalog.names().map((model) => this.#queues.of(model)),
      ...this.#versionQueues.used().map(({ model, version }) => this.#queues.of(model, version)),
      ...this.catalog.workerQueues().map(({ model, worker }) => {
        this.#sequences.watch(worker); // so that it is removed with its worker
        return this.#queues.of(model, '', worker);
      }),
    ];
  }

  stats() {
    const { count: requestsInFlight, bytes: bytesInFlight, lateAnswers } = this.#pending;
    return { requestsInFlight, bytesInFlight, lateAnswers };
  }

  async close(graceMs: number): Promise<void> {
    const { feed, link, redis, producer } = this.#parts;
    this.#closing = true;
    await this.#pending.close(graceMs);
    feed.close();
    this.monitor.close();
    this.traffic.close();
    this.#sequences.close();
    this.#lanes.close();
    await this.#listener.close();
    // Redis may go away meanwhile, and then an answer comes when it is back. What is left has a TTL.
    if (link.state.kind === 'up') {
      await within(redis.unlink(replyKey(producer), cancelKey(producer)), TIDY_MS).catch(() => false);
    }
    link.close();
    await within(this.#queues.close(), TIDY_MS);
    await closeRedis(redis);
  }

  #assertOpen(call: Call): void {
    if (this.#closing) throw new InferError('UNAVAILABLE', 'the server is shutting down');
    if (call.error) throw call.error;
    this.#parts.link.assertUsable();
  }

  #assertRoom(bytes: number): void {
    if (this.#pending.count >= this.#maxRequests) {
      const text = `${this.#pending.count} requests wait already, no more are taken`;
      throw new InferError('RESOURCE_EXHAUSTED', text, { refusedAt: 'entry' });
    }
    if (this.#pending.bytes + bytes > this.#maxBytes) {
      const given = `${bytes} more bytes beside ${this.#pending.bytes} that wait`;
      const text = `${given} are above the limit of ${this.#maxBytes}`;
      throw new InferError('RESOURCE_EXHAUSTED', text, { refusedAt: 'entry' });
    }
  }

  #abandon(request: PendingRequest, error: InferError): void {
    if (request.settled) return;
    const wasSent = request.bundle !== '';
    const { link, feed, clock = systemClock } = this.#parts;
    this.#pending.fail(request.sequence, explainDeadline(request, error, link, feed.catalog, clock.now()));
    if (wasSent) this.#cancels.add(request.sequence, link.toRedis(request.call.deadlineMs));
  }

  #gauge(model: string, version: string): Gauge {
    const key = gaugeKey(model, version);
    let gauge = this.#gauges.get(key);
    if (!gauge) this.#gauges.set(key, (gauge = { count: 0 }));
    return gauge;
  }
}

function gaugeKey(model: string, version: string): string {
  return `${model}/${version}`;
}
