import { createHash } from 'node:crypto';
import type { Redis } from 'ioredis';

/** A Lua script that is sent by its hash, and as a whole only to a Redis that does not know it yet. */
export class RedisScript {
  readonly #text: string;
  readonly #sha1: string;

  constructor(text: string) {
    this.#text = text;
    this.#sha1 = createHash('sha1').update(text).digest('hex');
  }

  async run(redis: Redis, keys: readonly string[], values: readonly (string | number | Buffer)[]): Promise<unknown> {
    try {
      return await redis.evalsha(this.#sha1, keys.length, ...keys, ...values);
    } catch (error) {
      if (!(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) throw error;
      return await redis.eval(this.#text, keys.length, ...keys, ...values);
    }
  }
}
