import { hostname } from 'node:os';
import type { Redis } from 'ioredis';
import { type DescribedFile, encodeDescription, MAX_FILE_BYTES } from '../../shared/directory/model-description.ts';
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
import type { QueueKeys } from '../../shared/wire/queue-keys.ts';
import { sealText } from '../../shared/wire/sealed.ts';
import { listDevices } from './devices.ts';
import {
  fileKey,
  isSha256,
  modelField,
  modelKey,
  MODELS_KEY,
  readUnloadedMark,
  workerKey,
  WORKERS_KEY,
} from '../../shared/wire/names.ts';
import { UnloadedModels } from './unloaded-models.ts';
import { sha256Hex } from '../../shared/sha256.ts';

export interface AnnouncerOptions {
  readonly redis: Redis;
  readonly link: RedisLink;
  readonly catalog: ModelCatalog;
  readonly workerId: string;
  /** Whether the worker loads and unloads models when the pool is asked to. */
  readonly controlled: boolean;
  /** How long its models stay known when no worker serves them any more, in ms. Default 7 days. */
  readonly retentionMs?: number | undefined;
  /** Signs what it says of models; undefined where that is not signed. */
  readonly keys?: QueueKeys | undefined;
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
const LOOK_MS = 1000;
/** Workers that were lost stay on the list this long, in ms. */
const FORGET_WORKERS_MS = 3_600_000;
/** Until when every producer has read that a model was unloaded, in ms. */
const FORGET_UNLOADED_MS = 3_600_000;

/** Tells the pool that this worker lives and what it serves, with everything a producer needs to prepare requests. */
export class Announcer {
  readonly #options: AnnouncerOptions;
  readonly #devices = listDevices();
  /** Built once per model object: reading and hashing its files is not for every heartbeat. */
  readonly #described = new WeakMap<ReadyModel, Promise<Described>>();
  readonly #unloaded: UnloadedModels;
  #timer: NodeJS.Timeout | undefined;
  #lastText = '';
  #lastBeatMs = -Infinity;
  #lastRefreshMs = -Infinity;
  #lookedMs = -Infinity;
  #draining = false;
  #startedMs = 0;
  #beating: Promise<void> | undefined;

  constructor(options: AnnouncerOptions) {
    this.#options = options;
    const { redis, link, workerId, logger } = options;
    this.#unloaded = new UnloadedModels(redis, link, workerId, logger);
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
      if (text === this.#lastText && now - this.#lastBeatMs < HEARTBEAT_MS && (await this.#isThere(now))) return;
      // Descriptions first: whoever reads the record finds what it points to.
      if (await this.#mustStore([...described.values()], models, now)) await this.#store([...described.values()], now);
      await redis
        .pipeline()
        .set(workerKey(workerId), text, 'PX', WORKER_TTL_MS)
        .zadd(WORKERS_KEY, Math.round(link.now()), workerId)
        .exec();
      this.#lastText = text;
      this.#lastBeatMs = now;
      this.#lookedMs = now;
      if (!this.#draining) await this.#unloaded.tend(models);
    } catch (error) {
      logger.warn({ error: String(error) }, 'worker not announced');
    }
  }

  /** Whether Redis still has what was told last; somebody may have emptied it. Asked once a second. */
  async #isThere(nowMs: number): Promise<boolean> {
    if (nowMs - this.#lookedMs < LOOK_MS) return true;
    this.#lookedMs = nowMs;
    return (await this.#options.redis.exists(workerKey(this.#options.workerId))) === 1;
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
      } else files.push({ name, sha256: sha256Hex(content), byteLength: content.byteLength });
    }
    const text = sealText(this.#options.keys, 'description', '', encodeDescription(model, files));
    return { hash: sha256Hex(text), text, files };
  }

  /** Whether something is new, gone (Redis lost its data), or due for another lease of life. */
  async #mustStore(
    described: readonly Described[],
    models: readonly AnnouncedModel[],
    nowMs: number,
  ): Promise<boolean> {
    const { redis, retentionMs = RETENTION_MS } = this.#options;
    if (nowMs - this.#lastRefreshMs > Math.min(REFRESH_MS, retentionMs / 3)) return true;
    const keys = new Set<string>([MODELS_KEY]);
    for (const { hash, files } of described) {
      keys.add(modelKey(hash));
      for (const file of files) keys.add(fileKey(file.sha256));
    }
    if ((await redis.exists(...keys)) < keys.size) return true;
    const fields = models.flatMap(({ name, version = '', description }) =>
      description === undefined ? [] : [modelField(name, version)],
    );
    if (fields.length === 0) return false;
    return (await redis.hmget(MODELS_KEY, ...fields)).some((hash) => !isSha256(hash));
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
      await redis.hset(MODELS_KEY, modelField(name, version), hash);
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
    const { redis, link } = this.#options;
    for (const [field, hash] of Object.entries(await redis.hgetall(MODELS_KEY))) {
      const unloadedMs = readUnloadedMark(hash);
      if (unloadedMs !== undefined && link.now() - unloadedMs < FORGET_UNLOADED_MS) continue;
      if ((await redis.exists(modelKey(hash))) === 0) await redis.hdel(MODELS_KEY, field);
    }
  }
}

/** Few are told exactly, many as a power of two: every other number is another record for all producers to read. */
function roughly(count: number): number {
  return count <= 8 ? count : 2 ** Math.floor(Math.log2(count));
}
