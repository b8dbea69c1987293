import type { Queue } from 'bullmq';
import type { Redis } from 'ioredis';
import { FIRST_RETRY_MS, type JobRecord } from '../../../shared/jobs/job.ts';
import type { RedisLink } from '../../../shared/runtime/redis-link.ts';
import type { EncodedBundle } from '../../../shared/wire/job.ts';
import { JOBS_PRODUCER, queueName, VERSION_QUEUES_KEY } from '../../../shared/wire/names.ts';
import type { QueueKeys } from '../../../shared/wire/queue-keys.ts';
import { JOB_NAME, KEEP_FAILED } from '../../../shared/wire/queue-options.ts';
import { signBundle } from '../../../shared/wire/signed-job.ts';
import type { ModelQueues } from '../../dispatch/model-queues.ts';
import { MIN_TTL_MS, RECOVERY_MS, refusal, writePayloads } from '../../dispatch/send-bundle.ts';
import type { VersionQueues } from '../../dispatch/version-queues.ts';

/** What the store needs of the pool; all of it stays its owner's. */
export interface JobPool {
  readonly redis: Redis;
  readonly link: RedisLink;
  /** Signs jobs and records, and checks them; undefined where they are not signed. */
  readonly keys?: QueueKeys | undefined;
  readonly queues: Pick<ModelQueues, 'of'>;
  readonly versionQueues: Pick<VersionQueues, 'choose'>;
}

/** Further back in line nobody's place is told: finding it takes a look at every job before it. */
const MAX_POSITION = 10_000;

/**
 * Brings a job into its queue, tensors first, in one round trip. Its id is the id of the BullMQ job, so that it is there
 * once however often it is sent.
 * @throws InferError UNAVAILABLE when Redis refused it.
 */
export async function enqueueJob(
  { redis, link, keys, queues }: JobPool,
  record: JobRecord,
  queueVersion: string,
  encoded: EncodedBundle,
): Promise<void> {
  const name = queueName(record.model, queueVersion);
  const bundle = keys ? signBundle(encoded, JOBS_PRODUCER, record.id, name, keys) : encoded;
  const nowMs = Math.round(link.now());
  const delay = Math.max(0, record.dueMs - nowMs);
  const ttlMs = Math.max(record.deadlineMs - nowMs + RECOVERY_MS, MIN_TTL_MS);
  try {
    await Promise.all([
      // A queue that only some workers take from is looked at by them for an hour after the time that stands here.
      queueVersion !== '' && redis.zadd(VERSION_QUEUES_KEY, 'GT', record.deadlineMs, name),
      writePayloads(redis, bundle.payloads, ttlMs),
      queues.of(record.model, queueVersion).add(JOB_NAME, bundle.data, {
        jobId: record.id,
        timestamp: nowMs,
        attempts: record.maxAttempts,
        backoff: { type: 'exponential', delay: FIRST_RETRY_MS },
        ...(delay > 0 && { delay }),
        ...(record.priority > 0 && { priority: record.priority }),
        // Its record is what is kept of it.
        removeOnComplete: true,
        removeOnFail: KEEP_FAILED,
      }),
    ]);
  } catch (error) {
    throw refusal(error, link);
  }
}

/** How many jobs BullMQ hands out before this one; undefined when it is not waiting, or far behind. */
export async function findPosition(redis: Redis, queue: Queue, id: string): Promise<number | undefined> {
  // A waiting list is filled at its head and emptied at its end.
  const [waiting, fromHead, rank] = await Promise.all([
    redis.llen(queue.toKey('wait')),
    redis.lpos(queue.toKey('wait'), id, 'RANK', -1, 'MAXLEN', MAX_POSITION),
    redis.zrank(queue.toKey('prioritized'), id),
  ]);
  if (fromHead !== null) return Math.max(0, waiting - 1 - fromHead);
  return rank === null ? undefined : waiting + rank;
}
