import { InferError } from '../../../shared/errors.ts';
import { nearestName } from '../../../shared/nearest-name.ts';
import { shownText } from '../../../shared/tensor/text.ts';

/** Where a Redis is: a URL, or its parts. */
export type RedisAddress =
  | string
  | {
      readonly host: string;
      readonly port: number;
      readonly db: number;
      readonly username?: string;
      readonly password?: string;
    };

export interface LocalCacheSettings {
  readonly kind: 'local';
  readonly maxBytes: number;
}

export interface RedisCacheSettings {
  readonly kind: 'redis';
  readonly connection: RedisAddress;
  /** How long an answer is kept. */
  readonly ttlMs: number;
  /** Larger answers are not kept. */
  readonly maxEntryBytes: number;
  /** How long a command may take until it counts as a miss. */
  readonly timeoutMs: number;
  /** For the first connection, after which it is tried in the background. Default 5000. */
  readonly connectTimeoutMs?: number;
}

export type CacheSettings = LocalCacheSettings | RedisCacheSettings;

const OPTION = '--cache-config';
const LOCAL_KEYS = ['size'] as const;
const REDIS_KEYS = ['host', 'port', 'user', 'password', 'db', 'ttl', 'max_entry_size', 'wait_timeout'] as const;

const DEFAULT_REDIS_PORT = 6379;
const DEFAULT_TTL_S = 3600;
const DEFAULT_ENTRY_BYTES = 1024 * 1024;
const DEFAULT_TIMEOUT_MS = 100;

/**
 * The values of `--cache-config`: `local,size=BYTES` or `redis,host=…,port=…`, each in one value or in several.
 * @param ownRedisUrl what `redis` without a host means; undefined where there is none
 * @returns undefined when no cache is wanted
 * @throws InferError INVALID_ARGUMENT; a password is in no message.
 */
export function parseCacheConfig(texts: readonly string[], ownRedisUrl?: string): CacheSettings | undefined {
  if (texts.length === 0) return undefined;
  const values = new Map<string, string>();
  let kind = '';
  for (const text of texts) {
    const [name = '', ...pairs] = text.split(',');
    if (name !== 'local' && name !== 'redis') throw wrong(`expected local,… or redis,…, got "${shownText(name)}"`);
    if (kind !== '' && kind !== name) throw wrong('there can be one cache only, got local and redis');
    kind = name;
    const keys: readonly string[] = kind === 'local' ? LOCAL_KEYS : REDIS_KEYS;
    for (const pair of joinPasswords(pairs, keys)) readPair(name, keys, pair, values);
  }
  return kind === 'local' ? localSettings(values) : redisSettings(values, ownRedisUrl);
}

/** A password may hold commas; only a key that is known ends it. */
function joinPasswords(pairs: readonly string[], keys: readonly string[]): string[] {
  const joined: string[] = [];
  for (const pair of pairs) {
    const isKey = keys.some((key) => pair.startsWith(`${key}=`));
    if (!isKey && joined.at(-1)?.startsWith('password=')) joined.push(`${joined.pop() ?? ''},${pair}`);
    else joined.push(pair);
  }
  return joined;
}

function readPair(name: string, keys: readonly string[], pair: string, values: Map<string, string>): void {
  const equals = pair.indexOf('=');
  const key = equals < 0 ? pair : pair.slice(0, equals);
  if (!keys.includes(key)) {
    const near = nearestName(key, keys);
    const hint = near === undefined ? '' : `; did you mean ${near}?`;
    throw wrong(`${name} has no key "${shownText(key)}", expected one of ${keys.join(', ')}${hint}`);
  }
  if (equals < 0) throw wrong(`${name},${key} needs a value: ${key}=…`);
  if (values.has(key)) throw wrong(`${name},${key} is given twice`);
  values.set(key, pair.slice(equals + 1));
}

function localSettings(values: ReadonlyMap<string, string>): LocalCacheSettings {
  if (!values.has('size')) throw wrong('local needs its size in bytes: local,size=BYTES');
  return { kind: 'local', maxBytes: wholeNumber(values, 'size', 0, 1024, Number.MAX_SAFE_INTEGER) };
}

function redisSettings(values: ReadonlyMap<string, string>, ownRedisUrl: string | undefined): RedisCacheSettings {
  return {
    kind: 'redis',
    connection: addressOf(values, ownRedisUrl),
    ttlMs: wholeNumber(values, 'ttl', DEFAULT_TTL_S, 1, 365 * 24 * 3600) * 1000,
    maxEntryBytes: wholeNumber(values, 'max_entry_size', DEFAULT_ENTRY_BYTES, 1024, 256 * 1024 * 1024),
    timeoutMs: wholeNumber(values, 'wait_timeout', DEFAULT_TIMEOUT_MS, 1, 60_000),
  };
}

function addressOf(values: ReadonlyMap<string, string>, ownRedisUrl: string | undefined): RedisAddress {
  const host = values.get('host');
  if (host === undefined || host === '') {
    for (const key of ['port', 'user', 'password', 'db']) {
      if (values.has(key)) throw wrong(`redis,${key} needs a host: redis,host=HOST`);
    }
    if (ownRedisUrl !== undefined) return ownRedisUrl;
    throw wrong('redis needs a host: redis,host=HOST,port=PORT');
  }
  const username = values.get('user');
  const password = values.get('password');
  return {
    host,
    port: wholeNumber(values, 'port', DEFAULT_REDIS_PORT, 1, 65_535),
    db: wholeNumber(values, 'db', 0, 0, 1_000_000),
    ...(username !== undefined && { username }),
    ...(password !== undefined && { password }),
  };
}

function wholeNumber(
  values: ReadonlyMap<string, string>,
  key: string,
  fallback: number,
  min: number,
  max: number,
): number {
  const text = values.get(key);
  if (text === undefined) return fallback;
  const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  if (Number.isSafeInteger(value) && value >= min && value <= max) return value;
  throw wrong(`${key} expects a whole number from ${min} to ${max}, got "${shownText(text)}"`);
}

function wrong(what: string): InferError {
  return new InferError('INVALID_ARGUMENT', `${OPTION}: ${what}`);
}
