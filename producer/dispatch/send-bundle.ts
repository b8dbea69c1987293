import type { Queue } from 'bullmq';
import type { Redis } from 'ioredis';
import { InferError } from '../../shared/errors.ts';
import type { RedisLink } from '../../shared/runtime/redis-link.ts';
import { encodeBundle, type Payload } from '../../shared/wire/job.ts';
import type { QueueKeys } from '../../shared/wire/queue-keys.ts';
import { JOB_NAME, jobId } from '../../shared/wire/queue-options.ts';
import { signBundle } from '../../shared/wire/signed-job.ts';
import type { PendingRequest } from './pending-requests.ts';

export interface BundleTarget {
  /** The connection that the queue uses too. */
  readonly redis: Redis;
  readonly link: RedisLink;
  readonly queue: Queue;
  readonly producer: string;
  readonly model: string;
  /** Signs the job; undefined where jobs are not signed. */
  readonly keys: QueueKeys | undefined;
}

/** Tensors outlive the deadline by the time that recovery from a dead worker may take, in ms. */
export const RECOVERY_MS = 30_000;
export const MIN_TTL_MS = 60_000;
/** For requests without a deadline. */
const MAX_TTL_MS = 600_000;

/**
 * Writes the tensors and adds the job, in this order but in one round trip. Where Redis takes the job without its tensors,
 * which a full one might, the worker refuses it and nobody waits for it any more.
 * @throws InferError UNAVAILABLE when Redis refused either.
 */
export async function sendBundle(
  target: BundleTarget,
  bundle: string,
  requests: readonly PendingRequest[],
): Promise<void> {
  const { link, queue, producer, model, keys } = target;
  // What is signed has an end, as its tensors have.
  const lastMs = keys ? link.now() + MAX_TTL_MS : Infinity;
  const items = requests.map(({ sequence, request, call }) => ({
    sequence,
    callId: call.id,
    request,
    priority: call.priority,
    deadlineMs: call.deadlineMs === Infinity ? lastMs : link.toRedis(call.deadlineMs),
  }));
  const encoded = encodeBundle(producer, bundle, model, items);
  const { data, payloads } = keys ? signBundle(encoded, producer, bundle, queue.name, keys) : encoded;
  try {
    await Promise.all([
      writePayloads(target.redis, payloads, payloadTtlMs(requests)),
      queue.add(JOB_NAME, data, { jobId: jobId(producer, bundle) }),
    ]);
  } catch (error) {
    throw refusal(error, link);
  }
}

export async function writePayloads(redis: Redis, payloads: readonly Payload[], ttlMs: number): Promise<void> {
  await Promise.all(payloads.map(({ key, data }) => redis.set(key, asBuffer(data), 'PX', ttlMs)));
}

function payloadTtlMs(requests: readonly PendingRequest[]): number {
  const nowMs = performance.now();
  let leftMs = 0;
  for (const { call } of requests) leftMs = Math.max(leftMs, call.deadlineMs - nowMs);
  return Math.round(Math.min(Math.max(leftMs + RECOVERY_MS, MIN_TTL_MS), MAX_TTL_MS));
}

/** ioredis sends Buffers as they are; another Uint8Array would become text. */
function asBuffer(data: Uint8Array): Buffer {
  return Buffer.isBuffer(data) ? data : Buffer.from(data.buffer, data.byteOffset, data.byteLength);
}

export function refusal(cause: unknown, link: RedisLink): InferError {
  if (cause instanceof InferError) return cause;
  if (cause instanceof Error && cause.message.includes('OOM')) {
    link.reportStorageFull();
    return new InferError('UNAVAILABLE', 'queue storage full', { cause });
  }
  return new InferError('UNAVAILABLE', 'the queue refused the request', { cause });
}
