import type { Redis } from 'ioredis';
import { type AnnouncedModel, decodeWorkerRecord, type WorkerRecord } from '../../shared/directory/worker-record.ts';
import { UNLOADED } from '../../shared/infer/ports.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { RedisLink } from '../../shared/runtime/redis-link.ts';
import { modelField, MODELS_KEY, unloadedMark, workerKey, WORKERS_KEY } from '../../shared/wire/names.ts';

const MAX_WORKERS = 10_000;

/**
 * Notices which models this worker has unloaded while it stays, and where no other worker has it either, writes down that it is
 * gone: nobody has to wait for it. What a worker takes along when it leaves, another may bring again; that stays known. So do
 * versions that gave way to others, as long as there are any.
 */
export class UnloadedModels {
  readonly #redis: Redis;
  readonly #link: RedisLink;
  readonly #workerId: string;
  readonly #logger: Logger;
  /** Versions that this worker serves or has served, by model. */
  readonly #served = new Map<string, Set<string>>();

  constructor(redis: Redis, link: RedisLink, workerId: string, logger: Logger) {
    this.#redis = redis;
    this.#link = link;
    this.#workerId = workerId;
    this.#logger = logger;
  }

  /** To be called when the record of this worker with these models has been written. */
  async tend(models: readonly AnnouncedModel[]): Promise<void> {
    for (const { name, version, state } of models) {
      if (state !== 'READY' || version === undefined) continue;
      this.#served.set(name, (this.#served.get(name) ?? new Set()).add(version));
    }
    const gone = [...this.#served].filter(([name]) => !models.some((model) => model.name === name && keeps(model)));
    if (gone.length === 0) return;
    // Each writes its own record first, so of workers that unload at once the last one sees none that has it.
    const theirs = (await this.#otherWorkers()).flatMap((worker) => worker.models);
    for (const [name, versions] of gone) {
      if (!theirs.some((model) => model.name === name && brings(model))) {
        const mark = unloadedMark(this.#link.now());
        // Also the versions that only others had, which unloaded them before.
        const known = (await this.#redis.hkeys(MODELS_KEY)).filter((field) => field.startsWith(modelField(name, '')));
        const fields = [...known, ...Array.from(versions, (version) => modelField(name, version))];
        await this.#redis.hset(MODELS_KEY, Object.fromEntries(fields.map((field) => [field, mark])));
      }
      this.#served.delete(name);
    }
  }

  async #otherWorkers(): Promise<WorkerRecord[]> {
    const ids = await this.#redis.zrevrange(WORKERS_KEY, 0, MAX_WORKERS - 1);
    const keys = ids.filter((id) => id !== this.#workerId).map(workerKey);
    const texts = keys.length === 0 ? [] : await this.#redis.mget(keys);
    return texts.flatMap((text) => {
      if (text === null) return [];
      try {
        return [decodeWorkerRecord(text)];
      } catch (error) {
        this.#logger.debug({ error: String(error) }, 'worker record skipped');
        return [];
      }
    });
  }
}

/** Whether the worker has the model, or would have it again when a request comes. */
function keeps({ state, reason, wakeable }: AnnouncedModel): boolean {
  if (wakeable === true) return true;
  return state !== 'UNKNOWN' && !(state === 'UNAVAILABLE' && reason === UNLOADED);
}

/** The same of another worker, of which only what it serves or will serve counts. */
function brings({ state, wakeable }: AnnouncedModel): boolean {
  return wakeable === true || state === 'LOADING' || state === 'READY';
}
