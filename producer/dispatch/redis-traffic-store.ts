import type { Redis } from 'ioredis';
import { InferError } from '../../shared/errors.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { RedisLink } from '../../shared/runtime/redis-link.ts';
import { decodeTrafficEntry, encodeTrafficEntry } from '../../shared/traffic/traffic-entry.ts';
import type { TrafficEntry, TrafficStore } from '../../shared/traffic/traffic-store.ts';
import { encodeModelName, TRAFFIC_KEY } from '../../shared/wire/names.ts';
import type { QueueKeys } from '../../shared/wire/queue-keys.ts';
import { openText, sealText } from '../../shared/wire/sealed.ts';

const POLL_MS = 500;

/** Sets a field of a hash where it still has the value that was read; '' stands for none. */
const REPLACE = `
local now = redis.call('HGET', KEYS[1], ARGV[1]) or ''
if now ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1`;

interface Known {
  readonly text: string;
  /** Undefined for a text that is none of ours. */
  readonly entry: TrafficEntry | undefined;
}

/** The entries of a pool, which all its producers read anew within a second. While Redis is away the last ones hold. */
export class RedisTrafficStore implements TrafficStore {
  readonly #redis: Redis;
  readonly #link: RedisLink;
  readonly #logger: Logger;
  readonly #keys: QueueKeys | undefined;
  /** By encoded model name. */
  #known: ReadonlyMap<string, Known> = new Map();
  #timer: NodeJS.Timeout | undefined;
  #reading: Promise<void> | undefined;

  /** @param keys with which entries are signed */
  constructor(redis: Redis, link: RedisLink, logger: Logger, keys?: QueueKeys) {
    this.#keys = keys;
    this.#redis = redis;
    this.#link = link;
    this.#logger = logger;
  }

  /** Resolves when the entries have been read once. */
  async start(): Promise<void> {
    await this.#refresh();
    this.#link.onRestart(() => void this.#writeBack());
    this.#timer = setInterval(() => void this.#refresh(), POLL_MS);
    this.#timer.unref();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  get(model: string): TrafficEntry | undefined {
    if (this.#known.size === 0) return undefined;
    try {
      return this.#known.get(encodeModelName(model))?.entry;
    } catch {
      return undefined; // no model has such a name
    }
  }

  async set(model: string, entry: TrafficEntry): Promise<void> {
    const field = encodeModelName(model);
    await this.#change((redis) => redis.hset(TRAFFIC_KEY, field, this.#encode(field, entry)));
  }

  async clear(model: string): Promise<void> {
    const field = encodeModelName(model);
    await this.#change((redis) => redis.hdel(TRAFFIC_KEY, field));
  }

  async replace(model: string, before: TrafficEntry | undefined, entry: TrafficEntry): Promise<boolean> {
    const field = encodeModelName(model);
    const expected = before === undefined ? '' : this.#textOf(field, before);
    const done = await this.#change((redis) =>
      redis.eval(REPLACE, 1, TRAFFIC_KEY, field, expected, this.#encode(field, entry)),
    );
    return done === 1;
  }

  #encode(field: string, entry: TrafficEntry): string {
    return sealText(this.#keys, 'traffic', field, encodeTrafficEntry(entry));
  }

  /** As it lies in Redis, where it may be signed with an older key. */
  #textOf(field: string, entry: TrafficEntry): string {
    const known = this.#known.get(field);
    const isKnown = known?.entry && encodeTrafficEntry(known.entry) === encodeTrafficEntry(entry);
    return isKnown ? known.text : this.#encode(field, entry);
  }

  async #change<T>(change: (redis: Redis) => Promise<T>): Promise<T> {
    this.#link.assertUsable();
    let result: T;
    try {
      result = await change(this.#redis);
    } catch (cause) {
      throw new InferError('UNAVAILABLE', 'the queue did not take the change of the traffic', { cause });
    }
    await this.#reading; // which may have begun before
    await this.#refresh();
    return result;
  }

  #refresh(): Promise<void> {
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  async #read(): Promise<void> {
    if (this.#link.state.kind !== 'up') return;
    try {
      const texts = Object.entries(await this.#redis.hgetall(TRAFFIC_KEY));
      if (texts.length === 0 && this.#known.size === 0) return;
      this.#known = new Map(texts.map(([field, text]) => [field, this.#parse(field, text)]));
    } catch (error) {
      this.#logger.warn({ error: String(error) }, 'traffic not read');
    }
  }

  #parse(field: string, text: string): Known {
    const known = this.#known.get(field);
    if (known?.text === text) return known;
    try {
      return { text, entry: decodeTrafficEntry(openText(this.#keys, 'traffic', field, text)) };
    } catch (error) {
      this.#logger.warn({ model: field, error: String(error) }, 'traffic entry skipped');
      return { text, entry: undefined };
    }
  }

  /** Redis came back as another process, perhaps without its data; what it still has counts. */
  async #writeBack(): Promise<void> {
    const known = this.#known;
    try {
      for (const [field, { text }] of known) await this.#redis.hsetnx(TRAFFIC_KEY, field, text);
    } catch (error) {
      this.#logger.warn({ error: String(error) }, 'traffic not written back');
    }
  }
}
