import type { Socket } from 'node:net';
import { Redis } from 'ioredis';
import { InferError } from '../errors.ts';
import type { Logger } from './logger.ts';

export interface RedisConnectionOptions {
  /** redis:// or rediss:// with everything that belongs to it: user, password, host, port, database. */
  readonly url: string;
  /** Shown by CLIENT LIST. */
  readonly name: string;
  /**
   * After this many ms without an answer to a command the connection is taken for dead and made anew. Must be longer
   * than any blocking read on it. Finds the connections that vanish without a word.
   */
  readonly silenceMs: number;
  readonly logger: Logger;
}

const CONNECT_TIMEOUT_MS = 5000;

/**
 * A client that connects on `connect()` or the first command and from then on reconnects for ever, quickly: BullMQ's own
 * strategy waits a second and more, which is what requests then wait too. Commands in flight when a connection breaks
 * are sent again, so they must be harmless twice; whoever must not wait for Redis asks its RedisLink first.
 */
export function createRedis(options: RedisConnectionOptions): Redis {
  assertRedisUrl(options.url);
  const redis = new Redis(options.url, {
    connectionName: options.name,
    lazyConnect: true,
    retryStrategy: (attempt) => Math.min(50 * attempt, 500),
    maxRetriesPerRequest: null,
    connectTimeout: CONNECT_TIMEOUT_MS,
    socketTimeout: options.silenceMs,
  });
  // Without a listener ioredis prints to the console. One line an outage, not one an attempt.
  let lastMessage = '';
  redis.on('error', (error: Error) => {
    if (error.message === lastMessage) return;
    lastMessage = error.message;
    options.logger.warn({ connection: options.name, error: error.message }, 'redis connection error');
  });
  redis.on('ready', () => {
    lastMessage = '';
  });
  redis.on('connect', () => joinWrites(redis.stream));
  return redis;
}

/**
 * Sends the commands of one turn of the event loop in one write. ioredis writes each of them by itself, and on both
 * sides of the connection the system calls cost more than the commands.
 */
function joinWrites(socket: Socket): void {
  const write = socket.write.bind(socket) as (...args: unknown[]) => boolean;
  const flush = (): void => socket.uncork();
  socket.write = (...args: unknown[]): boolean => {
    if (socket.writableCorked === 0) {
      socket.cork();
      setImmediate(flush);
    }
    return write(...args);
  };
}

/**
 * Connects a new client for the first time.
 * @throws InferError UNAVAILABLE with the address and the reason after `timeoutMs`; the client is closed then.
 */
export async function connectRedis(redis: Redis, timeoutMs = CONNECT_TIMEOUT_MS): Promise<void> {
  let reason = 'no answer';
  const note = (error: Error): void => {
    reason = error.message;
  };
  redis.on('error', note);
  let timer: NodeJS.Timeout | undefined;
  // connect() rejects at the first failure but goes on trying, so ready is what counts.
  const ready = new Promise<boolean>((resolve) => {
    redis.once('ready', () => resolve(true));
    timer = setTimeout(resolve, timeoutMs, false);
  });
  redis.connect().catch(note);
  const connected = await ready;
  clearTimeout(timer);
  redis.off('error', note);
  if (connected) return;
  redis.disconnect();
  throw new InferError('UNAVAILABLE', `cannot reach Redis at ${addressOf(redis)}: ${reason}`);
}

/** Ends a connection within `timeoutMs`, politely where Redis answers. */
export async function closeRedis(redis: Redis, timeoutMs = 1000): Promise<void> {
  if (redis.status !== 'ready') {
    redis.disconnect();
    return;
  }
  const timer = setTimeout(() => redis.disconnect(), timeoutMs);
  // A connection that breaks while it is being closed is closed.
  await redis.quit().catch(() => undefined);
  clearTimeout(timer);
  redis.disconnect();
}

/** Host and port, for messages; never the password. */
export function addressOf(redis: Redis): string {
  const { host = 'localhost', port = 6379 } = redis.options;
  return `${host}:${port}`;
}

function assertRedisUrl(url: string): void {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (!parsed || (parsed.protocol !== 'redis:' && parsed.protocol !== 'rediss:') || parsed.hostname === '') {
    throw new InferError(
      'INVALID_ARGUMENT',
      'the Redis address must look like redis://[user:password@]host[:port][/database], or rediss:// for TLS',
    );
  }
}
