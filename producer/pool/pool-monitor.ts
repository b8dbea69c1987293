import type { Redis } from 'ioredis';
import { decodeWorkerPulse, PULSE_MS, type WorkerPulse } from '../../shared/directory/worker-pulse.ts';
import type { WorkerRecord } from '../../shared/directory/worker-record.ts';
import { InferError } from '../../shared/errors.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { RedisLink } from '../../shared/runtime/redis-link.ts';
import { shownText } from '../../shared/tensor/text.ts';
import {
  drainKey,
  encodeModelName,
  pulseKey,
  queueName,
  SPEEDS_KEY,
  VERSION_QUEUES_KEY,
} from '../../shared/wire/names.ts';
import type { QueueKeys } from '../../shared/wire/queue-keys.ts';
import { sealText } from '../../shared/wire/sealed.ts';
import type { QueueCatalog } from '../dispatch/queue-catalog.ts';
import { type Backlog, readBacklogs, type ReadQueue } from './backlog-reader.ts';
import { removeExpired } from './remove-expired.ts';
import { type Demand, neededWorkers, SlowDescent, wholeWorkers } from './desired-workers.ts';
import { type ModelView, type Pool, type PoolView, viewSpeed, viewWorker, workerName } from './pool-view.ts';

export interface PoolMonitorOptions {
  readonly redis: Redis;
  readonly link: RedisLink;
  readonly catalog: QueueCatalog;
  readonly latencyGoalMs: number;
  readonly maxDesiredWorkers: number;
  /** Signs what workers are asked; undefined where that is not signed. */
  readonly keys?: QueueKeys | undefined;
  readonly logger: Logger;
}

/** Fewer workers are wished for once they would have been enough for so long, in ms. */
export const DESCENT_MS = 60_000;
/** What ran so lately is not over, in ms: a look once a second misses most of what is short. */
const RECENT_MS = 10_000;
/** Version queues that no producer has used for so long are not looked at, in ms. */
const FORGET_QUEUES_MS = 3_600_000;
/** Figures that are older than this say nothing, in ms. */
const BLIND_AFTER_MS = 60_000;
const DRAIN_TTL_MS = 3_600_000;

/** What one look found of a model. */
interface SeenModel extends Demand {
  readonly name: string;
  readonly workers: number;
  readonly waitingJobs: number;
}

/**
 * Looks once a second at what waits and who works, and says how many workers that takes. Every producer does it for itself
 * from the same figures in Redis. While Redis is away the last figures stand for a minute; then it tells none, so that those
 * of producers that see the pool are not drowned out.
 */
export class PoolMonitor implements Pool {
  readonly #options: PoolMonitorOptions;
  readonly #total = new SlowDescent(DESCENT_MS);
  readonly #ofModels = new Map<string, SlowDescent>();
  #pulses: ReadonlyMap<string, WorkerPulse> = new Map();
  #models: readonly ModelView[] = [];
  #desired = 0;
  #seeded = false;
  /** When it last saw the pool, on `performance.now()`. */
  #lookedMs = -Infinity;
  #timer: NodeJS.Timeout | undefined;
  #looking = false;

  constructor(options: PoolMonitorOptions) {
    this.#options = options;
  }

  start(): void {
    void this.look();
    this.#timer = setInterval(() => void this.look(), PULSE_MS);
    this.#timer.unref();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  /** Of all models together; undefined while the pool has not been seen for long. */
  get desiredWorkers(): number | undefined {
    return this.#isBlind() ? undefined : this.#desired;
  }

  /** None while the pool has not been seen for long. */
  get models(): readonly ModelView[] {
    return this.#isBlind() ? [] : this.#models;
  }

  workers(): PoolView['workers'] {
    return this.#options.catalog.workers().map((record) => viewWorker(record, this.#pulses.get(record.id)));
  }

  view(): PoolView {
    const { link, latencyGoalMs, maxDesiredWorkers } = this.#options;
    if (link.state.kind === 'down') link.assertUsable();
    return {
      desired_workers: this.#desired,
      latency_goal_ms: latencyGoalMs,
      max_desired_workers: maxDesiredWorkers,
      workers: [...this.workers()].sort((a, b) => (a.name < b.name ? -1 : 1)),
      models: this.#models,
    };
  }

  async drain(name: string): Promise<{ readonly id: string; readonly name: string }> {
    const { redis, link, catalog, keys } = this.#options;
    link.assertUsable();
    const worker = findWorker(catalog.workers(), name);
    try {
      await redis.set(drainKey(worker.id), sealText(keys, 'drain', worker.id, '1'), 'PX', DRAIN_TTL_MS);
    } catch (cause) {
      throw new InferError('UNAVAILABLE', 'the worker could not be asked to drain', { cause });
    }
    return { id: worker.id, name: workerName(worker) };
  }

  /** Resolves when it has looked, or could not. */
  async look(): Promise<void> {
    const { redis, link, catalog, logger } = this.#options;
    if (this.#looking || link.state.kind !== 'up') return;
    this.#looking = true;
    try {
      const queues = await this.#queues();
      const workers = catalog.workers();
      const [pulses, speeds, backlogs] = await Promise.all([
        readPulses(redis, workers),
        redis.hgetall(SPEEDS_KEY),
        readBacklogs(redis, queues, { here: Date.now(), redis: link.now() }),
      ]);
      this.#pulses = pulses;
      this.#conclude(catalog.names().map((name) => this.#see(name, backlogs.get(name), speeds[encodeModelName(name)])));
      this.#lookedMs = performance.now();
      await removeExpired(
        redis,
        [...backlogs.values()].flatMap(({ expired }) => expired),
      );
    } catch (error) {
      logger.debug({ error: String(error) }, 'pool not looked at');
    } finally {
      this.#looking = false;
    }
  }

  /** Those of the models, and of their versions where such are in use. What is for one worker alone needs no other. */
  async #queues(): Promise<ReadQueue[]> {
    const { redis, link, catalog } = this.#options;
    const since = Math.round(link.now() - FORGET_QUEUES_MS);
    const ofVersions = await redis.zrangebyscore(VERSION_QUEUES_KEY, since, '+inf');
    const queues = catalog
      .names()
      .map((model) => ({ model, name: queueName(model), batched: isBatched(catalog, model) }));
    const byName = new Map(queues.map((queue) => [queue.name, queue]));
    for (const name of ofVersions) {
      const queue = byName.get(name.slice(0, Math.max(0, name.lastIndexOf('@'))));
      if (queue) queues.push({ ...queue, name });
    }
    return queues;
  }

  #see(name: string, backlog: Backlog | undefined, lastSpeed: string | undefined): SeenModel {
    const { catalog, link } = this.#options;
    const takers = catalog.workers().filter(({ draining }) => !draining);
    let load = 0;
    let rowsInHand = 0;
    let recent = false;
    const speeds: number[] = [];
    for (const { id } of catalog.workers()) {
      const pulse = this.#pulses.get(id)?.models.get(name);
      if (!pulse) continue;
      load += pulse.load;
      rowsInHand += pulse.rowsInHand;
      if (pulse.rowsPerSecond !== undefined) speeds.push(pulse.rowsPerSecond);
      if (pulse.lastJobMs !== undefined && link.now() - pulse.lastJobMs < RECENT_MS) recent = true;
    }
    const { waitingRows = 0, waitingJobs = 0, activeJobs = 0 } = backlog ?? {};
    return {
      name,
      workers: takers.filter(({ models }) => models.some((m) => m.name === name && m.state === 'READY')).length,
      waitingJobs,
      waitingRows,
      // Jobs of a worker that was lost are in nobody's hand until another takes them over.
      runningRows: Math.max(rowsInHand, activeJobs),
      load,
      rowsPerSecond: speeds.length > 0 ? mean(speeds) : readSpeed(lastSpeed),
      recent,
    };
  }

  #conclude(seen: readonly SeenModel[]): void {
    const { latencyGoalMs, maxDesiredWorkers: max, catalog } = this.#options;
    const nowMs = performance.now();
    if (!this.#seeded) {
      // A producer that has just started knows of no past, and must not send away who works.
      this.#seeded = true;
      this.#total.next(Math.min(max, catalog.workers().filter(({ draining }) => !draining).length), nowMs);
      for (const { name, workers } of seen) this.#descentOf(name).next(Math.min(max, workers), nowMs);
    }
    const needs = seen.map((model) => neededWorkers(model, latencyGoalMs));
    this.#models = seen.map((model, index) => ({
      name: model.name,
      workers: model.workers,
      waiting_jobs: model.waitingJobs,
      waiting_rows: model.waitingRows,
      running_rows: model.runningRows,
      ...viewSpeed(model.rowsPerSecond),
      desired_workers: this.#descentOf(model.name).next(wholeWorkers([needs[index] ?? 0], max), nowMs),
    }));
    this.#desired = this.#total.next(wholeWorkers(needs, max), nowMs);
    const names = new Set(seen.map(({ name }) => name));
    for (const name of this.#ofModels.keys()) if (!names.has(name)) this.#ofModels.delete(name);
  }

  #isBlind(): boolean {
    return performance.now() - this.#lookedMs > BLIND_AFTER_MS;
  }

  #descentOf(model: string): SlowDescent {
    let descent = this.#ofModels.get(model);
    if (!descent) this.#ofModels.set(model, (descent = new SlowDescent(DESCENT_MS)));
    return descent;
  }
}

async function readPulses(redis: Redis, workers: readonly WorkerRecord[]): Promise<Map<string, WorkerPulse>> {
  const pulses = new Map<string, WorkerPulse>();
  if (workers.length === 0) return pulses;
  const texts = await redis.mget(workers.map(({ id }) => pulseKey(id)));
  workers.forEach(({ id }, index) => {
    const pulse = decodeWorkerPulse(texts[index] ?? '');
    if (pulse) pulses.set(id, pulse);
  });
  return pulses;
}

function findWorker(workers: readonly WorkerRecord[], name: string): WorkerRecord {
  const exact = workers.find((worker) => worker.id === name || workerName(worker) === name);
  if (exact) return exact;
  const onHost = workers.filter(({ host }) => host === name);
  const [first, second] = onHost;
  if (first && !second) return first;
  const shown = shownText(name);
  if (!first) throw new InferError('NOT_FOUND', `no worker of the pool is called '${shown}'`);
  const names = onHost.slice(0, 10).map(workerName).join(', ');
  throw new InferError('INVALID_ARGUMENT', `'${shown}' has ${onHost.length} workers; name one of them: ${names}`);
}

function isBatched(catalog: QueueCatalog, model: string): boolean {
  try {
    return catalog.resolve(model, '').maxBatchSize > 0;
  } catch {
    return false; // not ready anywhere; then each request counts as one row
  }
}

function readSpeed(text: string | undefined): number | undefined {
  const speed = Number(text);
  return Number.isFinite(speed) && speed > 0 ? speed : undefined;
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
