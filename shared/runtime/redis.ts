import type { Socket } from 'node:net';
import { Redis } from 'ioredis';
import { InferError } from '../errors.ts';
import type { Logger } from './logger.ts';
import { redisOptionsOf } from './redis-address.ts';

export interface RedisConnectionOptions {
  /** The address with everything that belongs to it, in one of the forms of `redisOptionsOf`. */
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

/** How a server says that it is not, or no longer, the one that takes our writes. */
const WRONG_SERVER = /^(?:READONLY|MOVED|CLUSTERDOWN|MASTERDOWN)\b/;
const LEAVE_EVERY_MS = 1000;

/**
 * A client that connects on `connect()` or the first command and from then on reconnects for ever, quickly: BullMQ's own
 * strategy waits a second and more, which is what requests then wait too. Commands in flight when a connection breaks
 * are sent again, so they must be harmless twice; whoever must not wait for Redis asks its RedisLink first.
 */
export function createRedis(options: RedisConnectionOptions): Redis {
  const redis = new Redis({
    ...redisOptionsOf(options.url),
    connectionName: options.name,
    lazyConnect: true,
    retryStrategy: (attempt) => Math.min(50 * attempt, 500),
    maxRetriesPerRequest: null,
    connectTimeout: CONNECT_TIMEOUT_MS,
    socketTimeout: options.silenceMs,
    reconnectOnError: leaveWrongServer(),
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
 * A connection to a server that has become a replica, or has given away our keys, would stay there for ever. So it is made
 * anew, which finds the right one by the sentinels, the cluster or the name; the command is sent again there. While
 * there is no right one this happens once a second, and in between the error goes to whoever asked.
 */
export function leaveWrongServer(): (error: Error) => false | 2 {
  let leftMs = -Infinity;
  return (error) => {
    if (!WRONG_SERVER.test(error.message)) return false;
    const nowMs = performance.now();
    if (nowMs - leftMs < LEAVE_EVERY_MS) return false;
    leftMs = nowMs;
    return 2;
  };
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
    dropRedis(redis);
    return;
  }
  const timer = setTimeout(() => dropRedis(redis), timeoutMs);
  // A connection that breaks while it is being closed is closed.
  await redis.quit().catch(() => undefined);
  clearTimeout(timer);
  redis.disconnect();
}

/**
 * Ends a connection at once; what waits for an answer is rejected. Between two attempts to connect, ioredis only gives up
 * the next one, and what waits would wait for ever: so there it is ended in the middle of an attempt.
 */
export function dropRedis(redis: Redis): void {
  if (redis.status === 'reconnecting') redis.connect().catch(() => undefined);
  redis.disconnect();
}

/** Host and port, for messages; never the password. */
export function addressOf(redis: Redis): string {
  const { sentinels, name = '' } = redis.options;
  if (sentinels) return `${name} of ${sentinels.map(({ host, port }) => `${host}:${port}`).join(', ')}`;
  const { host = 'localhost', port = 6379 } = redis.options;
  return `${host}:${port}`;
}
