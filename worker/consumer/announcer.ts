import { hostname } from 'node:os';
import type { Redis } from 'ioredis';
import {
  type DescribedFile,
  encodeDescription,
  MAX_FILE_BYTES,
  sha256,
} from '../../shared/directory/model-description.ts';
import {
  type AnnouncedModel,
  encodeWorkerRecord,
  HEARTBEAT_MS,
  WORKER_TTL_MS,
} from '../../shared/directory/worker-record.ts';
import type { ModelCatalog } from '../../shared/infer/ports.ts';
import type { ReadyModel } from '../../shared/model/ready-model.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { RedisLink } from '../../shared/runtime/redis-link.ts';
import { listDevices } from './devices.ts';
import { encodeModelName, fileKey, modelKey, MODELS_KEY, workerKey, WORKERS_KEY } from '../../shared/wire/names.ts';

export interface AnnouncerOptions {
  readonly redis: Redis;
  readonly link: RedisLink;
  readonly catalog: ModelCatalog;
  readonly workerId: string;
  /** Whether the worker loads and unloads models when the pool is asked to. */
  readonly controlled: boolean;
  /** How long its models stay known when no worker serves them any more, in ms. Default 7 days. */
  readonly retentionMs?: number | undefined;
  readonly logger: Logger;
}

/** A model as it lies in the directory. */
interface Described {
  readonly hash: string;
  readonly text: string;
  readonly files: readonly DescribedFile[];
}

/** Longer than a pool is at zero workers over a long weekend. */
const RETENTION_MS = 7 * 24 * 3_600_000;
const REFRESH_MS = 600_000;
/** Workers that were lost stay on the list this long, in ms. */
const FORGET_WORKERS_MS = 3_600_000;

/** Tells the pool that this worker lives and what it serves, with everything a producer needs to prepare requests. */
export class Announcer {
  readonly #options: AnnouncerOptions;
  readonly #devices = listDevices();
  /** Built once per model object: reading and hashing its files is not for every heartbeat. */
  readonly #described = new WeakMap<ReadyModel, Promise<Described>>();
  #timer: NodeJS.Timeout | undefined;
  #lastText = '';
  #lastBeatMs = -Infinity;
  #lastRefreshMs = -Infinity;
  #draining = false;
  #startedMs = 0;
  #beating: Promise<void> | undefined;

  constructor(options: AnnouncerOptions) {
    this.#options = options;
  }

  /** Resolves when the worker is in the directory. */
  async start(): Promise<void> {
    this.#startedMs = Math.round(this.#options.link.now());
    await this.#beat();
    // Another Redis may know nothing of us, and producers must not think for long that the models are gone.
    this.#options.link.onRestart(() => {
      this.#lastBeatMs = -Infinity;
      void this.#tick();
    });
    this.#timer = setInterval(() => void this.#tick(), HEARTBEAT_MS / 12);
    this.#timer.unref();
  }

  /** Resolves when the pool knows of everything that has changed until now. */
  async announce(): Promise<void> {
    await this.#beating;
    await this.#tick();
  }

  /** Says that this worker takes nothing new. */
  async drain(): Promise<void> {
    this.#draining = true;
    await this.announce();
  }

  /** Takes the worker off the list at once, instead of by its TTL. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#beating;
    const { redis, link, workerId, logger } = this.#options;
    if (link.state.kind !== 'up') return;
    try {
      await Promise.all([redis.unlink(workerKey(workerId)), redis.zrem(WORKERS_KEY, workerId)]);
    } catch (error) {
      logger.debug({ error: String(error) }, 'worker not taken off the list');
    }
  }

  /** A heartbeat is due when its time has come or something changed. */
  #tick(): Promise<void> {
    this.#beating ??= this.#beat().finally(() => {
      this.#beating = undefined;
    });
    return this.#beating;
  }

  async #beat(): Promise<void> {
    const { redis, link, workerId, controlled, logger } = this.#options;
    if (link.state.kind !== 'up') return;
    try {
      const described = new Map<string, Described>();
      const models = await this.#announcedModels(described);
      const text = encodeWorkerRecord({
        id: workerId,
        host: hostname(),
        pid: process.pid,
        startedMs: this.#startedMs,
        devices: this.#devices,
        draining: this.#draining,
        controlled,
        models,
      });
      const now = performance.now();
      if (text === this.#lastText && now - this.#lastBeatMs < HEARTBEAT_MS) return;
      // Descriptions first: whoever reads the record finds what it points to.
      if (await this.#mustStore([...described.values()], now)) await this.#store([...described.values()], now);
      await redis
        .pipeline()
        .set(workerKey(workerId), text, 'PX', WORKER_TTL_MS)
        .zadd(WORKERS_KEY, Math.round(link.now()), workerId)
        .exec();
      this.#lastText = text;
      this.#lastBeatMs = now;
    } catch (error) {
      logger.warn({ error: String(error) }, 'worker not announced');
    }
  }

  async #announcedModels(described: Map<string, Described>): Promise<AnnouncedModel[]> {
    const models: AnnouncedModel[] = [];
    for (const state of this.#options.catalog.list()) {
      const { name, version, state: kind } = state;
      const { freePlaces } = state;
      const model: AnnouncedModel = freePlaces === undefined ? state : { ...state, freePlaces: roughly(freePlaces) };
      if (kind !== 'READY' || version === undefined) {
        models.push(model);
        continue;
      }
      const description = await this.#describe(this.#options.catalog.resolve(name, version));
      described.set(description.hash, description);
      models.push({ ...model, description: description.hash });
    }
    return models;
  }

  #describe(model: ReadyModel): Promise<Described> {
    let described = this.#described.get(model);
    if (!described) {
      described = this.#read(model);
      described.catch(() => this.#described.delete(model));
      this.#described.set(model, described);
    }
    return described;
  }

  async #read(model: ReadyModel): Promise<Described> {
    const files: DescribedFile[] = [];
    for (const name of model.files.names) {
      const content = await model.files.read(name);
      if (content.byteLength > MAX_FILE_BYTES) {
        this.#options.logger.warn({ model: model.name, file: name, bytes: content.byteLength }, 'file not shared');
      } else files.push({ name, sha256: sha256(content), byteLength: content.byteLength });
    }
    const text = encodeDescription(model, files);
    return { hash: sha256(text), text, files };
  }

  /** Whether something is new, gone (Redis lost its data), or due for another lease of life. */
  async #mustStore(described: readonly Described[], nowMs: number): Promise<boolean> {
    const { retentionMs = RETENTION_MS } = this.#options;
    if (nowMs - this.#lastRefreshMs > Math.min(REFRESH_MS, retentionMs / 3)) return true;
    const keys = new Set<string>([MODELS_KEY]);
    for (const { hash, files } of described) {
      keys.add(modelKey(hash));
      for (const file of files) keys.add(fileKey(file.sha256));
    }
    return (await this.#options.redis.exists(...keys)) < keys.size;
  }

  async #store(described: readonly Described[], nowMs: number): Promise<void> {
    const { redis, link, catalog, retentionMs = RETENTION_MS } = this.#options;
    const versions = catalog.list().filter((state) => state.state === 'READY' && state.version !== undefined);
    for (const { name, version = '' } of versions) {
      const model = catalog.resolve(name, version);
      const { hash, text, files } = await this.#describe(model);
      if (!described.some((known) => known.hash === hash)) continue;
      for (const file of files) await this.#storeFile(model, file);
      await redis.set(modelKey(hash), text, 'PX', retentionMs);
      await redis.hset(MODELS_KEY, `${encodeModelName(name)}/${version}`, hash);
    }
    await this.#forgetOld();
    await redis.zremrangebyscore(WORKERS_KEY, '-inf', Math.round(link.now() - FORGET_WORKERS_MS));
    this.#lastRefreshMs = nowMs;
  }

  async #storeFile(model: ReadyModel, file: DescribedFile): Promise<void> {
    const { redis, retentionMs = RETENTION_MS } = this.#options;
    const key = fileKey(file.sha256);
    // Most of the time somebody has stored it already.
    if ((await redis.pexpire(key, retentionMs)) === 1) return;
    const content = await model.files.read(file.name);
    await redis.set(key, content, 'PX', retentionMs);
  }

  /** Models whose description has expired are not known any more. */
  async #forgetOld(): Promise<void> {
    const { redis } = this.#options;
    for (const [field, hash] of Object.entries(await redis.hgetall(MODELS_KEY))) {
      if ((await redis.exists(modelKey(hash))) === 0) await redis.hdel(MODELS_KEY, field);
    }
  }
}

/** Few are told exactly, many as a power of two: every other number is another record for all producers to read. */
function roughly(count: number): number {
  return count <= 8 ? count : 2 ** Math.floor(Math.log2(count));
}
