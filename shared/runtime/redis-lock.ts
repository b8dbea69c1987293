import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { InferError } from '../errors.ts';

/** A lock whose holder is lost is free again after this time, in ms. */
const TTL_MS = 15_000;
const RETRY_MS = 50;

const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;
const EXTEND = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0`;

/**
 * Takes a lock that one process at a time can hold, and keeps it until the answer is called. It orders work that is safe
 * without it: a holder that is stopped for longer than the lock lives does not know that it has lost it.
 * @throws InferError UNAVAILABLE when it cannot be had within `waitMs`
 */
export async function takeRedisLock(redis: Redis, key: string, waitMs: number): Promise<() => Promise<void>> {
  const token = randomBytes(12).toString('base64url');
  const untilMs = performance.now() + waitMs;
  while ((await redis.set(key, token, 'PX', TTL_MS, 'NX')) === null) {
    if (performance.now() >= untilMs) {
      throw new InferError('UNAVAILABLE', `another change of the model did not end within ${Math.round(waitMs)} ms`);
    }
    await sleep(RETRY_MS);
  }
  const timer = setInterval(() => {
    redis.eval(EXTEND, 1, key, token, TTL_MS).catch(() => undefined); // it expires, which is what it is there for
  }, TTL_MS / 3);
  timer.unref();
  return async () => {
    clearInterval(timer);
    await redis.eval(RELEASE, 1, key, token).catch(() => undefined); // it expires
  };
}
