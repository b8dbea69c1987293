import { InferError } from '../../../shared/errors.ts';
import { Call } from '../../../shared/infer/call.ts';
import { deadlineError } from '../../../shared/infer/deadline-error.ts';
import type { InferFn } from '../../../shared/infer/ports.ts';
import type { Parameters } from '../../../shared/infer/request.ts';
import type { InferResponse } from '../../../shared/infer/response.ts';
import {
  createJobId,
  FIRST_RETRY_MS,
  isOver,
  isRetryable,
  type JobRecord,
  type JobState,
  stateOfError,
  type WebhookProgress,
} from '../../../shared/jobs/job.ts';
import type { Clock } from '../../../shared/runtime/clock.ts';
import { copyResponse } from '../cache/copy-response.ts';
import { bytesUsedUp, conflict, shareUsedUp, tooMany } from './job-errors.ts';
import { JobLine } from './job-line.ts';
import type { AddedJob, Idempotency, JobListener, JobPage, JobQuery, JobStore, NewJob } from './job-store.ts';
import { newRecord } from './new-record.ts';

export interface MemoryJobStoreOptions {
  /** Runs a job's request; settles by the call's deadline itself. */
  readonly infer: InferFn;
  readonly clock: Clock;
  /** Jobs that may be open; more are refused. */
  readonly maxOpen: number;
  /** How many of so many jobs a tenant may have open; all unless given. */
  readonly shareOf?: ((tenant: string, maxOpen: number) => number) | undefined;
  /** Bytes that the requests of open jobs of a tenant may have; any number unless given, and for 0. */
  readonly bytesOf?: ((tenant: string) => number) | undefined;
  /** Bytes of requests and kept answers; while they are reached new jobs are refused. */
  readonly maxBytes: number;
}

interface MemoryJob {
  record: JobRecord;
  /** Undefined once it is over. */
  work: NewJob | undefined;
  call: Call | undefined;
  response: InferResponse | undefined;
  bytes: number;
  readonly key: string | undefined;
  readonly fingerprint: string | undefined;
  /** Ends the timers that it has running. */
  readonly timers: Set<() => void>;
}

/** Records are kept when their jobs are over; so many times the open ones there may be. */
const KEPT_PER_OPEN = 10;

/** Jobs of this process alone, which go with it. */
export class MemoryJobStore implements JobStore {
  readonly #options: MemoryJobStoreOptions;
  /** In the order of their ids. */
  readonly #jobs = new Map<string, MemoryJob>();
  readonly #keys = new Map<string, string>();
  readonly #lines = new Map<string, JobLine<MemoryJob>>();
  readonly #listeners = new Set<JobListener>();
  /** Those that are not over, all and by tenant. */
  #open = 0;
  readonly #openOf = new Map<string, { jobs: number; bytes: number }>();
  #bytes = 0;
  #lastMs = 0;
  #lastId = '';
  #closed = false;

  constructor(options: MemoryJobStoreOptions) {
    this.#options = options;
  }

  add(work: NewJob): Promise<AddedJob> {
    try {
      return Promise.resolve(this.#add(work));
    } catch (error) {
      return Promise.reject(InferError.from(error));
    }
  }

  find(idempotency: Idempotency): Promise<JobRecord | undefined> {
    try {
      return Promise.resolve(this.#known(idempotency)?.record);
    } catch (error) {
      return Promise.reject(InferError.from(error));
    }
  }

  read(id: string): Promise<JobRecord | undefined> {
    return Promise.resolve(this.#jobs.get(id)?.record);
  }

  position({ id, model }: JobRecord): Promise<number | undefined> {
    const job = this.#jobs.get(id);
    return Promise.resolve(job && this.#lines.get(model)?.position(job));
  }

  result(id: string): Promise<InferResponse | undefined> {
    return Promise.resolve(this.#jobs.get(id)?.response);
  }

  cancel(id: string): Promise<boolean> {
    const job = this.#jobs.get(id);
    if (!job || isOver(job.record.state)) return Promise.resolve(false);
    this.#end(job, 'cancelled', new InferError('CANCELLED', 'the job was cancelled'));
    return Promise.resolve(true);
  }

  list({ tenant, model, state, limit, cursor }: JobQuery): Promise<JobPage> {
    const records: JobRecord[] = [];
    for (const { record } of [...this.#jobs.values()].reverse()) {
      if (cursor !== '' && record.id >= cursor) continue;
      if ((tenant ?? record.tenant) !== record.tenant) continue;
      if ((model ?? record.model) !== record.model || (state ?? record.state) !== record.state) continue;
      if (records.length === limit) return Promise.resolve({ records, cursor: records.at(-1)?.id });
      records.push(record);
    }
    return Promise.resolve({ records, cursor: undefined });
  }

  noteWebhook(id: string, progress: WebhookProgress): Promise<void> {
    const job = this.#jobs.get(id);
    if (job?.record.webhook) job.record = { ...job.record, webhook: { ...job.record.webhook, ...progress } };
    return Promise.resolve();
  }

  onChange(listener: JobListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  close(): Promise<void> {
    this.#closed = true;
    for (const job of this.#jobs.values()) {
      for (const cancelTimer of job.timers) cancelTimer();
      job.call?.cancel(new InferError('CANCELLED', 'the server is shutting down'));
    }
    this.#jobs.clear();
    return Promise.resolve();
  }

  #add(work: NewJob): AddedJob {
    if (this.#closed) throw new InferError('UNAVAILABLE', 'the server is shutting down');
    const known = this.#known(work.idempotency);
    if (known) return known;
    const bytes = byteLengthOfWork(work);
    this.#assertRoom(bytes, work.tenant);
    const { settings, idempotency, tenant } = work;
    // Ids sort by time, and the map keeps their order.
    const nowMs = (this.#lastMs = Math.max(this.#lastMs, Date.now()));
    const record = newRecord(this.#newId(nowMs), nowMs, work);
    const { key, fingerprint } = idempotency ?? { key: undefined, fingerprint: undefined };
    const job: MemoryJob = {
      record,
      work,
      call: undefined,
      response: undefined,
      bytes,
      key,
      fingerprint,
      timers: new Set(),
    };
    this.#jobs.set(record.id, job);
    if (key !== undefined) this.#keys.set(key, record.id);
    this.#countOpen(tenant, 1, bytes);
    this.#bytes += bytes;
    this.#after(job, settings.delayMs + settings.timeoutMs, () => this.#expire(job));
    if (settings.delayMs > 0) this.#after(job, settings.delayMs, () => this.#enter(job));
    else this.#enter(job);
    return { record, created: true };
  }

  #countOpen(tenant: string, change: 1 | -1, bytes: number): void {
    this.#open += change;
    const own = this.#openOf.get(tenant) ?? { jobs: 0, bytes: 0 };
    own.jobs += change;
    own.bytes += change * bytes;
    if (own.jobs === 0) this.#openOf.delete(tenant);
    else this.#openOf.set(tenant, own);
  }

  #known(idempotency: Idempotency | undefined): AddedJob | undefined {
    const id = idempotency && this.#keys.get(idempotency.key);
    const job = id === undefined ? undefined : this.#jobs.get(id);
    if (!job) return undefined;
    if (job.fingerprint !== idempotency?.fingerprint) throw conflict(job.record.id);
    return { record: job.record, created: false };
  }

  #assertRoom(bytes: number, tenant: string): void {
    const { maxOpen, maxBytes, shareOf, bytesOf } = this.#options;
    if (this.#open >= maxOpen) throw tooMany(this.#open);
    const own = this.#openOf.get(tenant) ?? { jobs: 0, bytes: 0 };
    if (tenant !== '' && shareOf && own.jobs >= shareOf(tenant, maxOpen)) throw shareUsedUp(tenant, own.jobs);
    const ownBytes = tenant === '' ? 0 : (bytesOf?.(tenant) ?? 0);
    if (ownBytes > 0 && own.bytes + bytes > ownBytes) throw bytesUsedUp(tenant, own.bytes, bytes, ownBytes);
    if (this.#jobs.size >= maxOpen * KEPT_PER_OPEN) {
      const text = `the records of ${this.#jobs.size} jobs are kept already, no more are taken; try again later`;
      throw new InferError('RESOURCE_EXHAUSTED', text, { refusedAt: 'entry' });
    }
    if (this.#bytes + bytes > maxBytes) {
      const given = `${bytes} more bytes beside ${this.#bytes} of jobs and kept answers`;
      throw new InferError('RESOURCE_EXHAUSTED', `${given} are above the limit of ${maxBytes}; try again later`, {
        refusedAt: 'entry',
      });
    }
  }

  /** Above the last one, so that a list by id is a list by time. */
  #newId(nowMs: number): string {
    let id = createJobId(nowMs);
    if (id <= this.#lastId) id = createJobId((this.#lastMs += 1));
    return (this.#lastId = id);
  }

  #after(job: MemoryJob, ms: number, act: () => void): void {
    const cancelTimer = this.#options.clock.setTimer(() => {
      job.timers.delete(cancelTimer);
      act();
    }, ms);
    job.timers.add(cancelTimer);
  }

  #enter(job: MemoryJob): void {
    const { model, priority } = job.record;
    let line = this.#lines.get(model);
    if (!line) this.#lines.set(model, (line = new JobLine((next) => this.#run(next))));
    line.push(job, priority);
  }

  /** Never rejects. */
  async #run(job: MemoryJob): Promise<void> {
    const { work, record } = job;
    if (!work || isOver(record.state)) return;
    const { clock, infer } = this.#options;
    const nowMs = clock.now();
    const call = new Call(work.callId, nowMs, nowMs + (record.deadlineMs - Date.now()), work.level);
    job.call = call;
    this.#change(job, { state: 'running', startedMs: Date.now(), runs: record.runs + 1 });
    try {
      const response = await infer(work.request, call);
      if (isOver(job.record.state)) return;
      job.response = copyResponse(response);
      this.#end(job, 'succeeded', undefined);
    } catch (cause) {
      this.#failed(job, InferError.from(cause));
    } finally {
      job.call = undefined;
    }
  }

  #failed(job: MemoryJob, error: InferError): void {
    const { state, runs, maxAttempts, deadlineMs } = job.record;
    if (isOver(state)) return;
    if (error.code === 'DEADLINE_EXCEEDED') {
      this.#expire(job);
      return;
    }
    const retryMs = FIRST_RETRY_MS * 2 ** (runs - 1);
    if (!isRetryable(error) || runs >= maxAttempts || Date.now() + retryMs >= deadlineMs) {
      this.#end(job, stateOfError(error), error);
      return;
    }
    this.#change(job, { state: 'queued', error });
    this.#after(job, retryMs, () => this.#enter(job));
  }

  #expire(job: MemoryJob): void {
    const { state, createdMs, deadlineMs } = job.record;
    if (!isOver(state)) this.#end(job, 'expired', deadlineError(deadlineMs - createdMs));
  }

  #end(job: MemoryJob, state: JobState, error: InferError | undefined): void {
    const { call, timers, record } = job;
    for (const cancelTimer of timers) cancelTimer();
    timers.clear();
    this.#lines.get(record.model)?.remove(job);
    job.work = undefined;
    this.#countOpen(record.tenant, -1, job.bytes);
    this.#bytes -= job.bytes;
    job.bytes = byteLengthOfEnd(job, error);
    this.#bytes += job.bytes;
    this.#after(job, record.keepMs, () => this.#forget(job));
    this.#change(job, { state, error, finishedMs: Date.now() });
    if (error) call?.cancel(error);
  }

  #forget(job: MemoryJob): void {
    this.#jobs.delete(job.record.id);
    if (job.key !== undefined && this.#keys.get(job.key) === job.record.id) this.#keys.delete(job.key);
    this.#bytes -= job.bytes;
  }

  #change(job: MemoryJob, change: Partial<JobRecord>): void {
    job.record = { ...job.record, ...change };
    const { id, state } = job.record;
    for (const listener of [...this.#listeners]) listener(id, state);
  }
}

/** What a job holds while it is open: tensors, and whatever texts of any length its client has sent. */
function byteLengthOfWork({ request, answer, webhook, idempotency }: NewJob): number {
  const { id, inputs, outputs, parameters } = request;
  return (
    byteLengthOfTensors(inputs) +
    byteLengthOfTexts([id, answer, webhook ?? '', idempotency?.key ?? '', ...outputs]) +
    byteLengthOfParameters(parameters)
  );
}

/** What is kept of it once it is over. */
function byteLengthOfEnd({ record, response, key = '' }: MemoryJob, error: InferError | undefined): number {
  const texts = byteLengthOfTexts([record.answer, record.webhook?.url ?? '', key, error?.message ?? '']);
  if (!response) return texts;
  return texts + byteLengthOfTensors(response.outputs) + byteLengthOfParameters(response.parameters);
}

function byteLengthOfTensors(tensors: readonly { readonly data: Uint8Array }[]): number {
  let byteLength = 0;
  for (const { data } of tensors) byteLength += data.byteLength;
  return byteLength;
}

function byteLengthOfParameters(parameters: Parameters): number {
  let byteLength = 0;
  for (const [name, value] of Object.entries(parameters)) byteLength += byteLengthOfTexts([name, String(value)]);
  return byteLength;
}

/** As V8 holds them at most. */
function byteLengthOfTexts(texts: readonly string[]): number {
  let byteLength = 0;
  for (const { length } of texts) byteLength += 2 * length;
  return byteLength;
}
