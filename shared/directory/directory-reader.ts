import type { Redis } from 'ioredis';
import { sha256Hex } from '../sha256.ts';
import type { Logger } from '../runtime/logger.ts';
import { isSha256, modelKey, MODELS_KEY, readUnloadedMark, workerKey, WORKERS_KEY } from '../wire/names.ts';
import type { QueueKeys } from '../wire/queue-keys.ts';
import { openText } from '../wire/sealed.ts';
import { decodeDescription, type ModelDescription } from './model-description.ts';
import { decodeWorkerRecord, type WorkerRecord } from './worker-record.ts';

/** What the directory says at one moment. */
export interface DirectorySnapshot {
  /** Workers with a heartbeat. */
  readonly workers: readonly WorkerRecord[];
  /** Descriptions of the models that these workers serve, or served not long ago, by their hash. */
  readonly descriptions: ReadonlyMap<string, ModelDescription>;
  /** The fields of model versions (names.ts) that the last worker which had them has unloaded. */
  readonly unloaded: ReadonlySet<string>;
}

const MAX_WORKERS = 10_000;

/** Reads the directory; keeps what it has parsed, so that an unchanged directory costs two small reads. */
export class DirectoryReader {
  readonly #redis: Redis;
  readonly #logger: Logger;
  readonly #keys: QueueKeys | undefined;
  #descriptions: ReadonlyMap<string, ModelDescription> = new Map();
  #workers: readonly WorkerRecord[] = [];
  #workerTexts: readonly string[] = [];
  #knownText = '';

  /** @param keys with which descriptions of models are signed */
  constructor(redis: Redis, logger: Logger, keys?: QueueKeys) {
    this.#redis = redis;
    this.#logger = logger;
    this.#keys = keys;
  }

  /** The snapshot, the same object parts as before where nothing changed; undefined when nothing changed at all. */
  async read(): Promise<DirectorySnapshot | undefined> {
    const [ids, known] = await Promise.all([
      this.#redis.zrevrange(WORKERS_KEY, 0, MAX_WORKERS - 1),
      this.#redis.hgetall(MODELS_KEY),
    ]);
    const keys = ids.map(workerKey);
    const texts = keys.length === 0 ? [] : (await this.#redis.mget(keys)).filter((text) => text !== null).sort();
    const knownText = JSON.stringify(known);
    const changed =
      knownText !== this.#knownText ||
      texts.length !== this.#workerTexts.length ||
      texts.some((text, index) => text !== this.#workerTexts[index]);
    if (!changed) return undefined;
    const workers = this.#parseWorkers(texts);
    const complete = await this.#loadDescriptions(workers, Object.values(known));
    this.#workers = workers;
    this.#workerTexts = texts;
    // A description that is missing now may come with the worker's next heartbeat, so look again then.
    this.#knownText = complete ? knownText : '';
    const marked = Object.entries(known).filter(([, text]) => readUnloadedMark(text) !== undefined);
    const unloaded = new Set(marked.map(([field]) => field));
    return { workers: this.#workers, descriptions: this.#descriptions, unloaded };
  }

  #parseWorkers(texts: readonly string[]): WorkerRecord[] {
    const workers: WorkerRecord[] = [];
    for (const text of texts) {
      try {
        workers.push(decodeWorkerRecord(text));
      } catch (error) {
        // A worker of another version, or somebody's test: the others still count.
        this.#logger.warn({ error: String(error) }, 'worker record skipped');
      }
    }
    return workers;
  }

  /** Returns whether all that were named were there. */
  async #loadDescriptions(workers: readonly WorkerRecord[], known: readonly string[]): Promise<boolean> {
    const wanted = new Set(known.filter(isSha256));
    for (const worker of workers) {
      for (const model of worker.models) if (model.description) wanted.add(model.description);
    }
    const descriptions = new Map<string, ModelDescription>();
    const missing: string[] = [];
    for (const hash of wanted) {
      const have = this.#descriptions.get(hash);
      if (have) descriptions.set(hash, have);
      else missing.push(hash);
    }
    const texts = missing.length === 0 ? [] : await this.#redis.mget(missing.map(modelKey));
    let complete = true;
    missing.forEach((hash, index) => {
      const description = this.#parseDescription(hash, texts[index] ?? null);
      if (description) descriptions.set(hash, description);
      else complete = false;
    });
    this.#descriptions = descriptions;
    return complete;
  }

  #parseDescription(hash: string, text: string | null): ModelDescription | undefined {
    if (text === null) return undefined;
    try {
      if (sha256Hex(text) !== hash) throw new Error('the text does not have the hash that is its name');
      return decodeDescription(openText(this.#keys, 'description', '', text));
    } catch (error) {
      this.#logger.warn({ error: String(error) }, 'model description skipped');
      return undefined;
    }
  }
}
