import { createHash } from 'node:crypto';
import { decodeJobRecord, type JobRecord } from '../../../shared/jobs/job.ts';
import { type EncodedBundle, encodeBundle } from '../../../shared/wire/job.ts';
import { JOBS_PRODUCER, jobIdempotencyKey } from '../../../shared/wire/names.ts';
import type { NewJob } from './job-store.ts';

/** A job as it lies in Redis: its record, and what the store alone needs to know. */
export interface StoredJob {
  readonly record: JobRecord;
  readonly sequence: number;
  readonly queueVersion: string;
  readonly payloadKeys: readonly string[];
}

/** The fields of the record of a job that nobody has run yet. */
export function fieldsOf({ record, sequence, queueVersion, payloadKeys }: StoredJob): Record<string, string | number> {
  return {
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
  };
}

/** Undefined for a hash that is no record, or none any more. */
export function decodeStored(id: string, fields: Readonly<Record<string, string>>): StoredJob | undefined {
  const record = decodeJobRecord(id, fields);
  if (!record) return undefined;
  const { sequence = '0', queue = '', payload = '' } = fields;
  return {
    record,
    sequence: Number(sequence),
    queueVersion: queue,
    payloadKeys: payload === '' ? [] : payload.split('\n'),
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
  return jobIdempotencyKey(createHash('sha256').update(text).digest('hex'));
}
