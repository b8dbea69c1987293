import { randomBytes } from 'node:crypto';
import type { Redis } from 'ioredis';
import { InferError } from '../../shared/errors.ts';
import { notStarted, type SequencePart, sequenceLost } from '../../shared/infer/sequence.ts';
import { sequenceKey } from '../../shared/wire/names.ts';
import type { FreePlaces } from './free-places.ts';
import type { QueueCatalog } from './queue-catalog.ts';

/** One sequence of one model version. */
export interface SequenceName {
  readonly model: string;
  /** The one that answers, whatever the request asks for. */
  readonly version: string;
  readonly part: SequencePart;
}

export interface HolderQuestion extends SequenceName {
  /** The version as the request asks for it; '' for the latest. */
  readonly asked: string;
  /** How long to remember who holds the sequence, in ms. */
  readonly ttlMs: number;
  /** Workers that had no room for this START. */
  readonly full: ReadonlySet<string>;
}

/** Who holds a sequence, from one START to the next. */
export interface Holder {
  readonly worker: string;
  /** As it lies in Redis. */
  readonly text: string;
}

/**
 * A START: the worker that holds the sequence keeps it where it is one of those that may, else the first of them gets it.
 * The token tells this START from others. KEYS: the sequence; ARGV: token, ms, workers that may, the one to choose first.
 */
const START = `
local held = redis.call('get', KEYS[1])
local worker = ARGV[3]
if held then
  local before = string.match(held, '^[^ ]+')
  for i = 3, #ARGV do
    if ARGV[i] == before then worker = before end
  end
end
local text = worker .. ' ' .. ARGV[1]
redis.call('set', KEYS[1], text, 'PX', ARGV[2])
return text
`;
const FORGET = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;

/**
 * Who holds which sequence. All producers read and write it in Redis, where it is forgotten a while after the worker has
 * forgotten the sequence itself.
 */
export class SequenceHolders {
  readonly #redis: Redis;
  readonly #catalog: QueueCatalog;
  readonly #places: FreePlaces;
  readonly #refresh: () => Promise<void>;

  /** `refresh` brings the catalog up to date. */
  constructor(redis: Redis, catalog: QueueCatalog, places: FreePlaces, refresh: () => Promise<void>) {
    this.#redis = redis;
    this.#catalog = catalog;
    this.#places = places;
    this.#refresh = refresh;
  }

  /**
   * The worker that the request has to go to. With its START a sequence gets the one with the most free places.
   * @throws InferError INVALID_ARGUMENT for a sequence that was never started, UNAVAILABLE for one whose worker is gone or
   *   does not serve the model any more, RESOURCE_EXHAUSTED when no worker has room.
   */
  async find(question: HolderQuestion): Promise<Holder> {
    try {
      return await (question.part.start ? this.#choose(question) : this.#lookUp(question));
    } catch (error) {
      if (error instanceof InferError) throw error;
      throw new InferError('UNAVAILABLE', 'the queue could not say which worker holds the sequence', { cause: error });
    }
  }

  /** Remembers a sequence for so long from now. */
  async extend({ model, version, part }: SequenceName, ttlMs: number): Promise<void> {
    await this.#redis.pexpire(sequenceKey(model, version, part.key), Math.ceil(ttlMs));
  }

  /** The sequence has ended, and has not begun anew since it was found. */
  async forget({ model, version, part }: SequenceName, { text }: Holder): Promise<void> {
    await this.#redis.eval(FORGET, 1, sequenceKey(model, version, part.key), text);
  }

  /** A sequence that is live at a worker starts anew there, so that it does not hold a second place elsewhere. */
  async #choose({ model, version, part, ttlMs, full }: HolderQuestion): Promise<Holder> {
    let workers = this.#catalog.workersServing(model, version);
    if (workers.length === 0) {
      await this.#refresh(); // a worker may have come just now
      workers = this.#catalog.workersServing(model, version);
    }
    if (workers.length === 0) throw new InferError('UNAVAILABLE', `no worker serves model '${model}' now`);
    const left = workers.filter((worker) => !full.has(worker));
    if (left.length === 0) {
      const text = `no worker has room for another sequence of model '${model}': all ${full.size} that were asked refused`;
      throw new InferError('RESOURCE_EXHAUSTED', text, { refusedAt: 'entry' });
    }
    const ranked = this.#places.rank(model, version, left);
    const token = randomBytes(9).toString('base64url');
    const key = sequenceKey(model, version, part.key);
    const holder = holderOf(String(await this.#redis.eval(START, 1, key, token, Math.ceil(ttlMs), ...ranked)));
    this.#places.give(model, version, holder.worker);
    return holder;
  }

  async #lookUp({ model, version, asked, part, ttlMs }: HolderQuestion): Promise<Holder> {
    const text = await this.#redis.getex(sequenceKey(model, version, part.key), 'PX', Math.ceil(ttlMs));
    if (text === null) throw await this.#missing(model, version, asked, part);
    const holder = holderOf(text);
    if (this.#serves(holder.worker, model, version)) return holder;
    await this.#refresh(); // another producer may have met a new worker before this one did
    if (this.#serves(holder.worker, model, version)) return holder;
    throw sequenceLost(model, part, 'the worker that held it is gone or does not serve the model any more');
  }

  /** A request that names no version may have lost its sequence to a newer version. */
  async #missing(model: string, version: string, asked: string, part: SequencePart): Promise<InferError> {
    const others = asked === '' ? this.#catalog.knownVersions(model).filter((other) => other !== version) : [];
    const keys = others.map((other) => sequenceKey(model, other, part.key));
    const found = keys.length === 0 ? -1 : (await this.#redis.mget(keys)).findIndex((text) => text !== null);
    const other = others[found];
    if (other === undefined) return notStarted(model, part);
    const why = `it began at version ${other} of the model, and version ${version} answers now`;
    return sequenceLost(model, part, why);
  }

  #serves(worker: string, model: string, version: string): boolean {
    return this.#catalog.workersServing(model, version).includes(worker);
  }
}

function holderOf(text: string): Holder {
  return { text, worker: text.split(' ', 1)[0] ?? '' };
}
