import { isOver, type WebhookProgress } from '../../../shared/jobs/job.ts';
import type { ReadyModel } from '../../../shared/model/ready-model.ts';
import type { JobView } from '../../service/jobs/jobs.ts';
import { httpStatusOf } from '../triton-http/status.ts';
import type { DecodedRequest } from '../triton-http/codec.ts';

/** A job as clients see it. Times are ISO 8601 in UTC; null for what is not known (yet). */
export interface JobDocument {
  readonly id: string;
  readonly model: string;
  readonly version: string | null;
  readonly state: string;
  /** Jobs before it in line, for one that waits for its turn. */
  readonly position: number | null;
  readonly priority: number;
  readonly attempts: { readonly made: number; readonly max: number };
  readonly created_at: string;
  readonly due_at: string;
  readonly deadline: string;
  readonly started_at: string | null;
  readonly finished_at: string | null;
  /** Until when job and answer are kept; null while it is not over. */
  readonly kept_until: string | null;
  /** Why it ended, or why its last attempt failed; absent otherwise, as clients look for this key to know a failure. */
  readonly error?: { readonly code: string; readonly status: number; readonly message: string };
  /** How far the message about its end is; absent when nobody asked for one. Its URL may hold secrets and is not told. */
  readonly webhook?: WebhookProgress;
  readonly links: { readonly self: string; readonly result: string; readonly events: string };
}

export function encodeJob({ record, position }: JobView): JobDocument {
  const { id, state, version, error, finishedMs, keepMs, webhook } = record;
  const over = isOver(state);
  const self = jobPath(id);
  return {
    id,
    model: record.model,
    version: version === '' ? null : version,
    state,
    position: position ?? null,
    priority: record.priority,
    attempts: { made: record.runs, max: record.maxAttempts },
    created_at: isoTime(record.createdMs),
    due_at: isoTime(record.dueMs),
    deadline: isoTime(record.deadlineMs),
    started_at: record.startedMs === undefined ? null : isoTime(record.startedMs),
    finished_at: finishedMs === undefined ? null : isoTime(finishedMs),
    kept_until: over && finishedMs !== undefined ? isoTime(finishedMs + keepMs) : null,
    ...(error && { error: { code: error.code, status: httpStatusOf(error.code), message: error.message } }),
    ...(webhook && { webhook: { state: webhook.state, attempts: webhook.attempts } }),
    links: { self, result: `${self}/result`, events: `${self}/events` },
  };
}

export function jobPath(id: string): string {
  return `/jobs/${id}`;
}

/** A Date holds no more; what a record says may be anything. */
const MAX_TIME_MS = 8.64e15;

function isoTime(unixMs: number): string {
  return new Date(Math.max(-MAX_TIME_MS, Math.min(unixMs, MAX_TIME_MS))).toISOString();
}

/** What is needed of an infer request to write its answer later, its model there or not. */
export type AnswerForm = Pick<DecodedRequest, 'wishes' | 'binaryByDefault' | 'bareNan'> & {
  readonly id: string;
  /** Whether the first dimension of the outputs counts rows. */
  readonly batched: boolean;
};

/** As it lies in the record of a job. */
export function encodeAnswerForm(decoded: DecodedRequest, { maxBatchSize }: Pick<ReadyModel, 'maxBatchSize'>): string {
  const { request, wishes, binaryByDefault, bareNan } = decoded;
  const form: AnswerForm = { id: request.id, wishes, binaryByDefault, bareNan, batched: maxBatchSize > 0 };
  return JSON.stringify(form);
}

/** Reads back what `encodeAnswerForm` wrote; a record that holds something else is answered in the plainest form. */
export function decodeAnswerForm(text: string): AnswerForm {
  const plain: AnswerForm = { id: '', wishes: [], binaryByDefault: false, bareNan: false, batched: false };
  try {
    return { ...plain, ...(JSON.parse(text) as Partial<AnswerForm>) }; // our own words in our own record
  } catch {
    return plain;
  }
}
