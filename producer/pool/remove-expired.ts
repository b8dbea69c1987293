import type { Redis } from 'ioredis';
import { RedisScript } from '../../shared/runtime/redis-script.ts';
import type { ExpiredJob } from './backlog-reader.ts';

/** Removes a job that still waits; one that a worker has taken meanwhile is that worker's. Its tensors expire. */
const REMOVE_WAITING = new RedisScript(`
local queue, id = ARGV[1], ARGV[2]
local removed = redis.call('LREM', queue .. ':wait', -1, id) + redis.call('ZREM', queue .. ':prioritized', id)
if removed > 0 then redis.call('UNLINK', queue .. ':' .. id) end
return removed`);

/** Removes jobs that nobody waits for any more, which else lie there until a worker comes for the model, or never. */
export async function removeExpired(redis: Redis, jobs: readonly ExpiredJob[]): Promise<void> {
  for (const { queueKey, id } of jobs) await REMOVE_WAITING.run(redis, [`${queueKey}:wait`], [queueKey, id]);
}
