import { InferError } from '../../../shared/errors.ts';
import type { InferRequest } from '../../../shared/infer/request.ts';
import type { InferResponse } from '../../../shared/infer/response.ts';
import type { JobRecord, JobState, WebhookProgress } from '../../../shared/jobs/job.ts';
import type { JobSettings } from './job-settings.ts';

/** A request that is to become a job. It fits its model. */
export interface NewJob {
  readonly request: InferRequest;
  readonly settings: JobSettings;
  /** Of the call that runs it, for logs. */
  readonly callId: string;
  /** The level within the model's own queue, as Triton has it; 0 for the default. */
  readonly level: number;
  /** How the answer is to be written, in words of the facade. */
  readonly answer: string;
  /** Whose key came with it; '' where requests need none. */
  readonly tenant: string;
  /** The URL that is told of its end; nobody unless given. */
  readonly webhook?: string | undefined;
  readonly idempotency: Idempotency | undefined;
}

/** Submissions with the same key are one job; with another fingerprint they are a mistake. */
export interface Idempotency {
  /** The client's own text, with the name of its tenant where there are tenants. */
  readonly key: string;
  /** A hash of all that must be equal. */
  readonly fingerprint: string;
}

export interface AddedJob {
  readonly record: JobRecord;
  /** False when the key stood for a job already. */
  readonly created: boolean;
}

export interface JobQuery {
  /** Unless given, those of all. */
  readonly tenant?: string | undefined;
  readonly model: string | undefined;
  readonly state: JobState | undefined;
  readonly limit: number;
  /** The id of the last job of the page before; '' for the first page. */
  readonly cursor: string;
}

/** Newest first. A page may hold fewer than asked for, even none, and still not be the last. */
export interface JobPage {
  readonly records: readonly JobRecord[];
  /** Of the next page; undefined behind the last. */
  readonly cursor: string | undefined;
}

/** The key stands for another body. */
export class IdempotencyConflict extends InferError {}

export type JobListener = (id: string, state: JobState) => void;

/** Where jobs are kept and what has them run. */
export interface JobStore {
  /**
   * Resolves when the job is as safe as the store can make it.
   * @throws InferError RESOURCE_EXHAUSTED when too many are open, UNAVAILABLE when the store cannot be reached,
   *   IdempotencyConflict
   */
  add(job: NewJob): Promise<AddedJob>;
  /** The job that a key stands for. @throws IdempotencyConflict when it is that of something else */
  find(idempotency: Idempotency): Promise<JobRecord | undefined>;
  /** Undefined for one that never was, or is not kept any more. One whose time is over is never told as open. */
  read(id: string): Promise<JobRecord | undefined>;
  /** What stands in line before a job that waits for its turn; undefined when it does not, or that is not known. */
  position(record: JobRecord): Promise<number | undefined>;
  /** The answer of a job that succeeded. */
  result(id: string): Promise<InferResponse | undefined>;
  /** Whether this has ended the job; false for one that was over or is gone. */
  cancel(id: string): Promise<boolean>;
  list(query: JobQuery): Promise<JobPage>;
  /** How far the webhook of a job is; of no effect for one that is not kept any more. */
  noteWebhook(id: string, progress: WebhookProgress): Promise<void>;
  /**
   * Calls back for each change of state of any job of the store, whoever made it, at least while the store can be reached.
   * The answer ends it.
   */
  onChange(listener: JobListener): () => void;
  close(): Promise<void>;
}
