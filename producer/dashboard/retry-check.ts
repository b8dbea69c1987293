import type { Queue } from 'bullmq';
import type { Redis } from 'ioredis';
import { isJobState, isOver } from '../../shared/jobs/job.ts';
import { type DecodedBundle, decodeBundle, payloadKeys } from '../../shared/wire/job.ts';
import { jobRecordKey, WEBHOOK_QUEUE } from '../../shared/wire/names.ts';
import { isRecord } from '../../shared/wire/record.ts';
import { jobContent } from '../../shared/wire/signed-job.ts';

/** Jobs of a queue that are looked at before all of it may run again. */
const MAX_LOOKED = 100;

/** Why it would be of no use to run a job again; undefined when it may be, or the job is not there. */
export async function whyNotRetry(queue: Queue, redis: Redis, id: string): Promise<string | undefined> {
  if (queue.name === WEBHOOK_QUEUE) return undefined;
  const job = await queue.getJob(id);
  return job && (await whyNot(redis, job.data));
}

/** The same for all jobs of a queue that failed, or that are completed: why for the first one when it is so for each. */
export async function whyNotRetryAll(queue: Queue, redis: Redis, state: string): Promise<string | undefined> {
  if (queue.name === WEBHOOK_QUEUE || (state !== 'failed' && state !== 'completed')) return undefined;
  const jobs = await queue.getJobs([state], 0, MAX_LOOKED - 1);
  let first: string | undefined;
  for (const { data } of jobs) {
    const why = await whyNot(redis, data);
    if (why === undefined) return undefined;
    first ??= why;
  }
  return first;
}

async function whyNot(redis: Redis, data: unknown): Promise<string | undefined> {
  const content = jobContent(data);
  let bundle: DecodedBundle;
  try {
    bundle = decodeBundle(content, isRecord(content) ? String(content.model) : '');
  } catch {
    return 'not tried again: its data cannot be read, so it would fail in the same way';
  }
  if (bundle.job) {
    const state = await redis.hget(jobRecordKey(bundle.job.id), 'state');
    if (isJobState(state) && !isOver(state)) return undefined;
    return 'not tried again: a job that is over stays over, and its tensors are gone; submit its request again';
  }
  const [seconds = 0] = await redis.time();
  if (bundle.items.every(({ deadlineMs }) => deadlineMs <= seconds * 1000)) {
    return 'not tried again: nobody waits for its requests any more, their deadlines have passed';
  }
  const keys = payloadKeys(bundle.items);
  if (keys.length === 0 || (await redis.exists(...keys)) === keys.length) return undefined;
  return 'not tried again: its tensors are not in Redis any more; the client has to send its requests again';
}
