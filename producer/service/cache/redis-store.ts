import { Redis, type RedisOptions } from 'ioredis';
import type { InferResponse } from '../../../shared/infer/response.ts';
import type { Logger } from '../../../shared/runtime/logger.ts';
import { closeRedis, leaveWrongServer } from '../../../shared/runtime/redis.ts';
import { redisOptionsOf } from '../../../shared/runtime/redis-address.ts';
import { parseInfo } from '../../../shared/runtime/redis-checks.ts';
import { cachedResponseKey } from '../../../shared/wire/names.ts';
import type { QueueKeys } from '../../../shared/wire/queue-keys.ts';
import { decodeReplies, encodeReplies } from '../../../shared/wire/reply.ts';
import { openBytes, sealBytes } from '../../../shared/wire/sealed.ts';
import { asKept } from './copy-response.ts';
import type { RedisCacheSettings } from './cache-settings.ts';
import { bytesOf } from './local-store.ts';
import type { ResponseStore, StoreFigures } from './response-store.ts';

/** After trouble the store is left alone so long, in ms: a Redis that hangs must not slow every request down. */
const PAUSE_MS = 1000;
/** Answers on their way to Redis; more are not kept, so that a slow Redis does not fill this process. */
const MAX_BYTES_LEAVING = 64 * 1024 * 1024;
/** How often Redis is asked how full it is, in ms. */
const LOOK_MS = 1000;
/** Above this part of maxmemory nothing is added to a Redis that does not evict: the queue may be in it. */
const FULL_ABOVE = 0.5;
const CONNECT_TIMEOUT_MS = 5000;

/** Answers in Redis, shared by all that use the same one. Trouble with Redis is a miss, never an error. */
export class RedisStore implements ResponseStore {
  readonly #redis: Redis;
  readonly #settings: RedisCacheSettings;
  readonly #logger: Logger;
  readonly #keys: QueueKeys | undefined;
  #pausedUntilMs = -Infinity;
  #bytesLeaving = 0;
  #lookedMs = -Infinity;
  #full = false;
  #failures = 0;

  /** @param keys with which answers are signed; one that is not signed as it should be is a miss */
  constructor(settings: RedisCacheSettings, logger: Logger, keys?: QueueKeys) {
    this.#keys = keys;
    this.#settings = settings;
    this.#logger = logger;
    this.#redis = createClient(settings, logger);
  }

  /** Resolves when it is connected, or when that takes too long; then it connects later. */
  async start(): Promise<void> {
    const ready = new Promise<void>((resolve) => this.#redis.once('ready', resolve));
    this.#redis.connect().catch(() => undefined); // the listener of the client says what is wrong
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, this.#settings.connectTimeoutMs ?? CONNECT_TIMEOUT_MS);
    });
    await Promise.race([ready, late]);
    clearTimeout(timer);
  }

  get(key: string): undefined | Promise<InferResponse | undefined> {
    return this.#usable() ? this.#get(cachedResponseKey(key)) : undefined;
  }

  put(key: string, response: InferResponse): void {
    const bytes = bytesOf(response);
    if (bytes > this.#settings.maxEntryBytes || this.#bytesLeaving + bytes > MAX_BYTES_LEAVING) return;
    if (!this.#usable()) return;
    this.#look();
    if (this.#full) return;
    this.#bytesLeaving += bytes;
    const frame = encodeReplies([{ sequence: 0, response: asKept(response) }]);
    this.#redis
      .set(
        cachedResponseKey(key),
        sealBytes(this.#keys, 'cache', cachedResponseKey(key), frame),
        'PX',
        this.#settings.ttlMs,
      )
      .catch((error: unknown) => this.#failed(error))
      .finally(() => (this.#bytesLeaving -= bytes));
  }

  figures(): StoreFigures {
    return { held: undefined, failures: this.#failures };
  }

  close(): Promise<void> {
    return closeRedis(this.#redis);
  }

  #usable(): boolean {
    return this.#redis.status === 'ready' && performance.now() >= this.#pausedUntilMs;
  }

  async #get(key: string): Promise<InferResponse | undefined> {
    try {
      const value = await this.#redis.getBuffer(key);
      const frame = value && this.#open(key, value);
      if (!frame) return undefined;
      const [reply] = decodeReplies(frame);
      return reply && 'response' in reply ? asKept(reply.response) : undefined;
    } catch (error) {
      this.#failed(error);
      return undefined;
    }
  }

  #open(key: string, value: Buffer): Buffer | undefined {
    try {
      return openBytes(this.#keys, 'cache', key, value);
    } catch {
      return undefined; // counted
    }
  }

  /** Looks in the background, at most so often; what is known until then counts. */
  #look(): void {
    const nowMs = performance.now();
    if (nowMs - this.#lookedMs < LOOK_MS) return;
    this.#lookedMs = nowMs;
    this.#redis.info('memory').then(
      (text) => (this.#full = isFull(parseInfo(text))),
      (error: unknown) => this.#failed(error),
    );
  }

  #failed(error: unknown): void {
    this.#failures += 1;
    this.#pausedUntilMs = performance.now() + PAUSE_MS;
    // A server that takes nothing any more leaves what was written in the socket's buffer; a new connection drops it.
    if (error instanceof Error && error.message === COMMAND_TIMED_OUT) this.#redis.disconnect(true);
    this.#logger.debug({ error: String(error) }, 'response cache failed');
  }
}

/** The text of ioredis. */
const COMMAND_TIMED_OUT = 'Command timed out';

function createClient({ connection, timeoutMs }: RedisCacheSettings, logger: Logger): Redis {
  const options = {
    connectionName: 'millrace-cache',
    lazyConnect: true,
    // What cannot be asked now is a miss; nothing waits for a connection.
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    commandTimeout: timeoutMs,
    connectTimeout: CONNECT_TIMEOUT_MS,
    reconnectOnError: leaveWrongServer(),
    retryStrategy: (attempt: number) => Math.min(100 * attempt, 2000),
  } satisfies RedisOptions;
  const address = typeof connection === 'string' ? redisOptionsOf(connection) : connection;
  const redis = new Redis({ ...address, ...options });
  let lastMessage = '';
  redis.on('error', (error: Error) => {
    if (error.message === lastMessage) return;
    lastMessage = error.message;
    logger.warn({ error: error.message }, 'response cache not reachable');
  });
  redis.on('ready', () => {
    lastMessage = '';
  });
  return redis;
}

function isFull(memory: ReadonlyMap<string, string>): boolean {
  const limit = Number(memory.get('maxmemory') ?? 0);
  const evicts = memory.get('maxmemory_policy') !== 'noeviction';
  return limit > 0 && !evicts && Number(memory.get('used_memory') ?? 0) > limit * FULL_ABOVE;
}
