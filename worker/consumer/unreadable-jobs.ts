import { Job, type Worker } from 'bullmq';
import type { Redis } from 'ioredis';
import { JOB_NAME } from '../../shared/wire/queue-options.ts';
import { UNREADABLE_JOB } from '../../shared/wire/job.ts';

/** What BullMQ parses beside the data. It takes a missing one for an empty one. */
const PARSED = ['opts', 'progress', 'parent'] as const;

/**
 * BullMQ parses a job before anybody sees it. One that holds what is not JSON is therefore fetched, throws in BullMQ's
 * hands, loses its lock and is fetched again, for ever. This gives it data that can be read and is refused, so that it
 * fails with a reason at its next turn. Returns the ids of the jobs that it found.
 */
export async function markUnreadableJobs(worker: Worker, redis: Redis): Promise<string[]> {
  const [active = []] = await worker.getBackend().getRanges(['active'], 0, -1, true);
  const found: string[] = [];
  for (const id of active as string[]) {
    const key = worker.toKey(id);
    if (!(await isUnreadable(redis, key))) continue;
    await new Job(worker, JOB_NAME, UNREADABLE_JOB, {}, id).updateData(UNREADABLE_JOB);
    await redis.hdel(key, ...PARSED);
    found.push(id);
  }
  return found;
}

async function isUnreadable(redis: Redis, key: string): Promise<boolean> {
  let fields: (string | null)[];
  try {
    fields = await redis.hmget(key, 'data', ...PARSED);
  } catch (error) {
    // Not a job at all; BullMQ's own scripts refuse it.
    if (error instanceof Error && error.message.startsWith('WRONGTYPE')) return false;
    throw error;
  }
  // BullMQ takes an empty field for a missing one.
  return fields.some((text) => text !== null && text !== '' && !isJson(text)) || fields[1] === 'null';
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
