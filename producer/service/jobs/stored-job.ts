import { sha256Hex } from '../../../shared/sha256.ts';
import { decodeJobRecord, type JobRecord } from '../../../shared/jobs/job.ts';
import { checkRecord, signedSubmission, strangeRecord } from '../../../shared/jobs/signed-record.ts';
import { type EncodedBundle, encodeBundle } from '../../../shared/wire/job.ts';
import { JOBS_PRODUCER, jobIdempotencyKey } from '../../../shared/wire/names.ts';
import type { QueueKeys } from '../../../shared/wire/queue-keys.ts';
import type { Idempotency, NewJob } from './job-store.ts';

/** A job as it lies in Redis: its record, and what the store alone needs to know. */
export interface StoredJob {
  readonly record: JobRecord;
  readonly sequence: number;
  readonly queueVersion: string;
  readonly payloadKeys: readonly string[];
  /** A hash of its idempotency key and of what came with it; '' for none. Only signed records have it. */
  readonly idempotency: string;
  readonly isSigned: boolean;
}

/** The fields of the record of a job that nobody has run yet. */
export function fieldsOf(
  { record, sequence, queueVersion, payloadKeys, idempotency }: Omit<StoredJob, 'isSigned'>,
  keys?: QueueKeys,
): Record<string, string | number> {
  const fields = {
    model: record.model,
    version: record.version,
    created: record.createdMs,
    due: record.dueMs,
    deadline: record.deadlineMs,
    keep: record.keepMs,
    priority: record.priority,
    attempts: record.maxAttempts,
    answer: record.answer,
    ...(record.tenant !== '' && { tenant: record.tenant }),
    ...(record.webhook && { webhook: record.webhook.url }),
    sequence,
    queue: queueVersion,
    payload: payloadKeys.join('\n'),
    ...(idempotency !== '' && { idempotency }),
  };
  return keys ? { ...fields, ...signedSubmission(keys, record.id, fields) } : fields;
}

/**
 * Undefined for a hash that is no record, or none any more.
 * @throws InferError INTERNAL for one that is not signed as it should be
 */
export function decodeStored(
  id: string,
  fields: Readonly<Record<string, string>>,
  keys?: QueueKeys,
): StoredJob | undefined {
  const record = decodeJobRecord(id, fields);
  if (!record) return undefined;
  let isSigned = false;
  try {
    if (keys) isSigned = checkRecord(keys, id, fields);
  } catch (error) {
    throw strangeRecord(id, error);
  }
  const { sequence = '0', queue = '', payload = '', idempotency = '' } = fields;
  return {
    record,
    sequence: Number(sequence),
    queueVersion: queue,
    payloadKeys: payload === '' ? [] : payload.split('\n'),
    idempotency,
    isSigned,
  };
}

/** What goes into the queue; the same again for the same job. */
export function bundleOf(
  record: JobRecord,
  sequence: number,
  { request, callId, level }: Pick<NewJob, 'request' | 'callId' | 'level'>,
): EncodedBundle {
  const { id, model, deadlineMs, createdMs } = record;
  const item = { sequence, callId, request, priority: level, deadlineMs };
  return encodeBundle(JOBS_PRODUCER, id, model, [item], { id, timeoutMs: deadlineMs - createdMs });
}

/** Where Redis has the job of an idempotency key. */
export function idempotencyKeyOf(text: string): string {
  return jobIdempotencyKey(sha256Hex(text));
}

/** What a signed record says of its idempotency key, so that no key can be made to stand for another job. */
export function idempotencyDigestOf({ key, fingerprint }: Idempotency): string {
  return sha256Hex(JSON.stringify([key, fingerprint]));
}
