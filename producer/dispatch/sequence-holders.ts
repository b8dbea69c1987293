import type { Redis } from 'ioredis';
import { InferError } from '../../shared/errors.ts';
import { notStarted, type SequencePart, sequenceLost } from '../../shared/infer/sequence.ts';
import { sequenceKey } from '../../shared/wire/names.ts';
import type { QueueCatalog } from './queue-catalog.ts';

export interface HolderQuestion {
  readonly model: string;
  /** As the request asks for it. */
  readonly version: string;
  readonly part: SequencePart;
  /** How long to remember who holds the sequence, in ms. */
  readonly ttlMs: number;
}

/**
 * Who holds which sequence. All producers read and write it in Redis, where it is forgotten a while after the worker has
 * forgotten the sequence itself.
 */
export class SequenceHolders {
  readonly #redis: Redis;
  readonly #catalog: QueueCatalog;
  readonly #refresh: () => Promise<void>;
  #turn = 0;

  /** `refresh` brings the catalog up to date. */
  constructor(redis: Redis, catalog: QueueCatalog, refresh: () => Promise<void>) {
    this.#redis = redis;
    this.#catalog = catalog;
    this.#refresh = refresh;
  }

  /**
   * The worker that the request has to go to. With its START a sequence gets one, by turns; with its END it is forgotten.
   * @throws InferError INVALID_ARGUMENT for a sequence that was never started, UNAVAILABLE for one whose worker is gone or
   *   does not serve the model any more.
   */
  async find(question: HolderQuestion): Promise<string> {
    try {
      return await (question.part.start ? this.#choose(question) : this.#lookUp(question));
    } catch (error) {
      if (error instanceof InferError) throw error;
      throw new InferError('UNAVAILABLE', 'the queue could not say which worker holds the sequence', { cause: error });
    }
  }

  /** Remembers a sequence for so long from now. */
  async extend(model: string, { key }: SequencePart, ttlMs: number): Promise<void> {
    await this.#redis.pexpire(sequenceKey(model, key), Math.ceil(ttlMs));
  }

  /** A sequence that is live at a worker starts anew there, so that it does not hold a second place elsewhere. */
  async #choose({ model, version, part, ttlMs }: HolderQuestion): Promise<string> {
    const workers = this.#catalog.workersServing(model, version);
    const next = workers[(this.#turn += 1) % Math.max(1, workers.length)];
    if (next === undefined) throw new InferError('UNAVAILABLE', `no worker serves model '${model}' now`);
    const key = sequenceKey(model, part.key);
    if (part.end) {
      const holder = await this.#redis.getdel(key);
      return holder !== null && workers.includes(holder) ? holder : next;
    }
    const [, answer] = (await this.#redis
      .pipeline()
      .set(key, next, 'PX', Math.ceil(ttlMs), 'NX')
      .getex(key, 'PX', Math.ceil(ttlMs))
      .exec()) ?? [undefined, undefined];
    const holder = answer?.[1];
    if (typeof holder === 'string' && workers.includes(holder)) return holder;
    await this.#redis.set(key, next, 'PX', Math.ceil(ttlMs));
    return next;
  }

  async #lookUp({ model, version, part, ttlMs }: HolderQuestion): Promise<string> {
    const key = sequenceKey(model, part.key);
    const holder = part.end ? await this.#redis.getdel(key) : await this.#redis.getex(key, 'PX', Math.ceil(ttlMs));
    if (holder === null) throw notStarted(model, part);
    if (this.#serves(holder, model, version)) return holder;
    await this.#refresh(); // another producer may have met a new worker before this one did
    if (this.#serves(holder, model, version)) return holder;
    throw sequenceLost(model, part, 'the worker that held it is gone or does not serve the model any more');
  }

  #serves(worker: string, model: string, version: string): boolean {
    return this.#catalog.workersServing(model, version).includes(worker);
  }
}
