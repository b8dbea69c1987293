import { Job, type Worker } from 'bullmq';
import type { Redis } from 'ioredis';
import { JOB_NAME } from '../../shared/wire/queue-options.ts';
import { UNREADABLE_JOB } from '../../shared/wire/job.ts';

/**
 * BullMQ parses a job before anybody sees it. One whose data is not JSON is therefore fetched, throws in BullMQ's hands,
 * loses its lock and is fetched again, for ever. This gives it data that can be read and is refused, so that it fails
 * with a reason at its next turn. Returns the ids of the jobs that it found.
 */
export async function markUnreadableJobs(worker: Worker, redis: Redis): Promise<string[]> {
  const [active = []] = await worker.getBackend().getRanges(['active'], 0, -1, true);
  const found: string[] = [];
  for (const id of active as string[]) {
    const data = await redis.hget(worker.toKey(id), 'data');
    if (data === null || isJson(data)) continue;
    await new Job(worker, JOB_NAME, UNREADABLE_JOB, {}, id).updateData(UNREADABLE_JOB);
    found.push(id);
  }
  return found;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
