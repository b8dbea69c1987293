import type { Redis } from 'ioredis';

/** Connections that BullMQ has copied from ours, for reads that block. */
export interface RedisCopies {
  /** Makes them anew: what was asked on them is asked again. */
  renew(): void;
}

/**
 * Lets copies of a client be silent for longer than the client itself, as a read that blocks is. A connection that has
 * vanished without a word is then found late; whoever knows that the network was away renews the copies instead.
 * @param silenceMs longer than any read on them may block
 */
export function keepCopies(redis: Redis, silenceMs: number): RedisCopies {
  const copies = new Set<Redis>();
  const duplicate = redis.duplicate.bind(redis);
  redis.duplicate = (override) => {
    const copy = duplicate({ ...override, socketTimeout: silenceMs });
    copies.add(copy);
    copy.once('end', () => copies.delete(copy));
    return copy;
  };
  return {
    renew() {
      // A stream that is destroyed is made anew at once, and what was under way is sent again.
      for (const copy of copies) (copy.stream as Redis['stream'] | undefined)?.destroy(); // not there before it connects
    },
  };
}
