import { randomBytes } from 'node:crypto';
import type { Redis } from 'ioredis';
import { InferError } from '../../../shared/errors.ts';
import { deadlineError } from '../../../shared/infer/deadline-error.ts';
import type { InferRequest } from '../../../shared/infer/request.ts';
import type { InferResponse } from '../../../shared/infer/response.ts';
import {
  createJobId,
  isJobId,
  isOver,
  type JobRecord,
  type JobState,
  type WebhookProgress,
} from '../../../shared/jobs/job.ts';
import {
  finishJob,
  noteWebhook,
  type Submitted,
  submitJob,
  type SubmittedJob,
  withdrawJob,
} from '../../../shared/jobs/job-scripts.ts';
import { checkFrame, checkRecord, strangeRecord } from '../../../shared/jobs/signed-record.ts';
import type { Logger } from '../../../shared/runtime/logger.ts';
import { closeRedis, connectRedis, createRedis } from '../../../shared/runtime/redis.ts';
import { JOBS_KEY, JOBS_PRODUCER, jobRecordKey, jobResultKey } from '../../../shared/wire/names.ts';
import type { QueueKeys } from '../../../shared/wire/queue-keys.ts';
import { decodeReplies } from '../../../shared/wire/reply.ts';
import { CancelWriter } from '../../dispatch/cancel-writer.ts';
import { inputBytes } from '../with-admission.ts';
import { bytesUsedUp, conflict, keyJustGone, shareUsedUp, tooMany } from './job-errors.ts';
import { EVENTS_BLOCK_MS, JobEventReader } from './job-event-reader.ts';
import { enqueueJob, findPosition, type JobPool } from './job-queue.ts';
import type { AddedJob, Idempotency, JobListener, JobPage, JobQuery, JobStore, NewJob } from './job-store.ts';
import { JobSweeper } from './job-sweeper.ts';
import { newRecord } from './new-record.ts';
import {
  bundleOf,
  decodeStored,
  fieldsOf,
  idempotencyDigestOf,
  idempotencyKeyOf,
  type StoredJob,
} from './stored-job.ts';

export interface RedisJobStoreOptions {
  readonly pool: JobPool;
  readonly redisUrl: string;
  /** Jobs of all producers that may be open; more are refused. */
  readonly maxOpen: number;
  /** How many of so many jobs a tenant may have open; all unless given. */
  readonly shareOf?: ((tenant: string, maxOpen: number) => number) | undefined;
  /** Bytes that the tensors of open jobs of a tenant may have; any number unless given, and for 0. */
  readonly bytesOf?: ((tenant: string) => number) | undefined;
  readonly logger: Logger;
}

const WHOLE = (_tenant: string, maxOpen: number): number => maxOpen;

const SILENCE_MS = 5000;
const ANSWER_MS = 5000;
/** Answers may be large. */
const RESULT_MS = 30_000;
const LIST_CHUNK = 200;
/** Records that one page looks through. */
const LIST_LOOK = 2000;
/** A record outlives its deadline by this and the time to keep, in ms, in case no producer is there to end it. */
const RECORD_SLACK_MS = 60_000;

/** Jobs of a pool: a record and an answer each in Redis, and a BullMQ job in the queue of the model while it is open. */
export class RedisJobStore implements JobStore {
  readonly #options: RedisJobStoreOptions;
  readonly #events: JobEventReader;
  readonly #reader: Redis;
  readonly #cancels: CancelWriter;
  readonly #listeners = new Set<JobListener>();
  readonly #sweeper: JobSweeper;

  constructor(options: RedisJobStoreOptions) {
    this.#options = options;
    const { pool, redisUrl: url, logger } = options;
    this.#reader = createRedis({ url, name: 'millrace-jobs', silenceMs: EVENTS_BLOCK_MS + SILENCE_MS, logger });
    this.#events = new JobEventReader(this.#reader, (id, state) => this.#tell(id, state), logger);
    this.#cancels = new CancelWriter(pool.redis, pool.link, JOBS_PRODUCER, logger);
    this.#sweeper = new JobSweeper({
      redis: pool.redis,
      link: pool.link,
      decode: (id, fields) => this.#decode(id, fields),
      expire: (stored) => this.#expire(stored),
      withdraw: (stored) => this.#tryWithdraw(stored),
      logger,
    });
  }

  /** @throws InferError UNAVAILABLE when Redis cannot be reached. */
  async start(): Promise<void> {
    await connectRedis(this.#reader);
    await this.#events.start();
    this.#options.pool.link.onRestart(() => void this.#events.rewind().catch(() => undefined)); // it reads on from where it was
    this.#sweeper.start();
  }

  async add(job: NewJob): Promise<AddedJob> {
    const { maxOpen, shareOf = WHOLE, bytesOf, pool } = this.#options;
    const { link, keys, versionQueues } = pool;
    link.assertUsable();
    const nowMs = Math.round(link.now());
    const { request, settings, idempotency, tenant } = job;
    const record = newRecord(createJobId(nowMs), nowMs, job);
    const queueVersion = versionQueues.choose(request.model, request.version);
    const sequence = randomBytes(6).readUIntBE(0, 6);
    const bundle = bundleOf(record, sequence, job);
    const payloadKeys = bundle.payloads.map(({ key }) => key);
    const maxBytes = bytesOf?.(tenant) ?? 0;
    const bytes = inputBytes(request);
    const bound = keys && idempotency ? idempotencyDigestOf(idempotency) : '';
    const stored: StoredJob = {
      record,
      sequence,
      queueVersion,
      payloadKeys,
      idempotency: bound,
      isSigned: keys !== undefined,
    };
    const submitted = await this.#submit(stored, {
      id: record.id,
      nowMs,
      deadlineMs: record.deadlineMs,
      ttlMs: record.deadlineMs - nowMs + settings.keepMs + RECORD_SLACK_MS,
      idempotency: idempotency && { key: idempotencyKeyOf(idempotency.key), fingerprint: idempotency.fingerprint },
      tenant: tenant === '' ? undefined : { name: tenant, maxOpen: shareOf(tenant, maxOpen), maxBytes },
      bytes,
      fields: fieldsOf(stored, keys),
    });
    if (submitted.kind === 'full') throw tooMany(submitted.open);
    if (submitted.kind === 'share') throw shareUsedUp(tenant, submitted.open);
    if (submitted.kind === 'bytes') throw bytesUsedUp(tenant, submitted.open, bytes, maxBytes);
    if (submitted.kind === 'known') {
      if (submitted.fingerprint !== idempotency?.fingerprint) throw conflict(submitted.id);
      return { record: await this.#attach(submitted.id, job), created: false };
    }
    try {
      await this.#ask(() => enqueueJob(pool, record, queueVersion, bundle));
    } catch (error) {
      if (await this.#withdraw(stored)) throw error;
    }
    return { record, created: true };
  }

  async find(idempotency: Idempotency): Promise<JobRecord | undefined> {
    const { redis } = this.#options.pool;
    const { key, fingerprint } = idempotency;
    const [id, known] = await this.#ask(() => redis.hmget(idempotencyKeyOf(key), 'id', 'fingerprint'));
    const stored = id ? await this.#load(id) : undefined;
    if (stored && known !== fingerprint) throw conflict(stored.record.id);
    if (stored) this.#assertBound(stored, idempotency);
    return stored?.record;
  }

  async read(id: string): Promise<JobRecord | undefined> {
    return (await this.#load(id))?.record;
  }

  async position(record: JobRecord): Promise<number | undefined> {
    const { pool } = this.#options;
    const queueVersion = await this.#ask(() => pool.redis.hget(jobRecordKey(record.id), 'queue'));
    return this.#ask(() => findPosition(pool.redis, pool.queues.of(record.model, queueVersion ?? ''), record.id));
  }

  async result(id: string): Promise<InferResponse | undefined> {
    const { redis, keys } = this.#options.pool;
    const frame = await this.#ask(() => redis.getBuffer(jobResultKey(id)), RESULT_MS);
    if (!frame) return undefined;
    if (keys) await this.#checkFrame(keys, id, frame);
    const [reply] = decodeReplies(frame);
    return reply && 'response' in reply ? reply.response : undefined;
  }

  async #checkFrame(keys: QueueKeys, id: string, frame: Buffer): Promise<void> {
    const fields = await this.#ask(() => this.#options.pool.redis.hgetall(jobRecordKey(id)));
    try {
      checkRecord(keys, id, fields);
      checkFrame(keys, fields, frame);
    } catch (error) {
      throw strangeRecord(id, error);
    }
  }

  async cancel(id: string): Promise<boolean> {
    const stored = await this.#load(id);
    if (!stored || isOver(stored.record.state)) return false;
    return this.#end(stored, 'cancelled', new InferError('CANCELLED', 'the job was cancelled'));
  }

  async list({ tenant, model, state, limit, cursor }: JobQuery): Promise<JobPage> {
    const { redis } = this.#options.pool;
    const records: JobRecord[] = [];
    let from = cursor === '' ? '+' : `(${cursor}`;
    for (let looked = 0; looked < LIST_LOOK; looked += LIST_CHUNK) {
      const ids = await this.#ask(() => redis.zrevrangebylex(JOBS_KEY, from, '-', 'LIMIT', 0, LIST_CHUNK));
      const chunk = await this.#readAll(ids);
      for (const [index, record] of chunk.entries()) {
        const fits = record && (model ?? record.model) === record.model && (state ?? record.state) === record.state;
        if (!fits || (tenant ?? record.tenant) !== record.tenant) continue;
        records.push(record);
        if (records.length < limit) continue;
        const more = index + 1 < ids.length || ids.length === LIST_CHUNK;
        return { records, cursor: more ? record.id : undefined };
      }
      const last = ids.at(-1);
      if (last === undefined || ids.length < LIST_CHUNK) return { records, cursor: undefined };
      from = `(${last}`;
    }
    return { records, cursor: from.slice(1) };
  }

  noteWebhook(id: string, progress: WebhookProgress): Promise<void> {
    return this.#ask(() => noteWebhook(this.#options.pool.redis, id, progress));
  }

  onChange(listener: JobListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  async close(): Promise<void> {
    this.#sweeper.close();
    await this.#events.close();
    await closeRedis(this.#reader);
  }

  /** A submission whose answer does not come in time may be carried out later; then it is taken back. */
  async #submit(stored: StoredJob, job: SubmittedJob): Promise<Submitted> {
    const { maxOpen, pool } = this.#options;
    let sent: Promise<Submitted> | undefined;
    try {
      return await this.#ask(() => (sent = submitJob(pool.redis, job, maxOpen)));
    } catch (error) {
      sent?.then(
        ({ kind }) => kind === 'created' && this.#sweeper.abandon(stored),
        () => this.#sweeper.abandon(stored),
      );
      throw error;
    }
  }

  /** Takes back a job that was perhaps not enqueued. False when it is in its queue all the same. */
  async #withdraw(stored: StoredJob): Promise<boolean> {
    try {
      return await this.#ask(() => this.#tryWithdraw(stored));
    } catch {
      this.#sweeper.abandon(stored);
      return true;
    }
  }

  #tryWithdraw({ record: { id, model }, queueVersion }: StoredJob): Promise<boolean> {
    const { redis, queues } = this.#options.pool;
    return withdrawJob(redis, id, queues.of(model, queueVersion).toKey(id));
  }

  /** Where records are signed, a key stands for the job that was submitted with it and for no other. */
  #assertBound({ record, idempotency, isSigned }: StoredJob, asked: Idempotency | undefined): void {
    const { keys } = this.#options.pool;
    if (!keys || !isSigned || !asked || idempotency === idempotencyDigestOf(asked)) return;
    throw strangeRecord(record.id, keys.refuse('record', 'the idempotency key is that of another job'));
  }

  /** The job that a key stands for. Whoever made it may have died before it was in its queue; then it gets there now. */
  async #attach(id: string, job: NewJob): Promise<JobRecord> {
    const { pool } = this.#options;
    const stored = await this.#load(id);
    if (!stored) throw keyJustGone();
    this.#assertBound(stored, job.idempotency);
    const { record, queueVersion, sequence } = stored;
    if (record.state !== 'queued') return record;
    const queued = await this.#ask(() => pool.queues.of(record.model, queueVersion).getJob(id));
    if (queued) return record;
    const request: InferRequest = { ...job.request, version: record.version };
    const bundle = bundleOf(record, sequence, { ...job, request });
    await this.#ask(() => enqueueJob(pool, record, queueVersion, bundle));
    // Whoever made it may have taken it back in the meantime.
    const now = await this.#load(id);
    if (!now) throw keyJustGone();
    return now.record;
  }

  async #load(id: string): Promise<StoredJob | undefined> {
    if (!isJobId(id)) return undefined;
    const { redis, link, keys } = this.#options.pool;
    const stored = decodeStored(id, await this.#ask(() => redis.hgetall(jobRecordKey(id))), keys);
    if (!stored || isOver(stored.record.state) || stored.record.deadlineMs > link.now()) return stored;
    await this.#expire(stored);
    return decodeStored(id, await this.#ask(() => redis.hgetall(jobRecordKey(id))), keys);
  }

  async #readAll(ids: readonly string[]): Promise<(JobRecord | undefined)[]> {
    if (ids.length === 0) return [];
    const pipeline = this.#options.pool.redis.pipeline();
    for (const id of ids) pipeline.hgetall(jobRecordKey(id));
    const answers = (await this.#ask(() => pipeline.exec())) ?? [];
    return answers.map(([error, fields], index) => {
      if (error) return undefined;
      return this.#decode(ids[index] ?? '', fields as Record<string, string>)?.record; // what HGETALL gives
    });
  }

  /** Undefined also for a record that is not signed as it should be. */
  #decode(id: string, fields: Readonly<Record<string, string>>): StoredJob | undefined {
    try {
      return decodeStored(id, fields, this.#options.pool.keys);
    } catch {
      return undefined; // counted
    }
  }

  #expire(stored: StoredJob): Promise<boolean> {
    const { createdMs, deadlineMs } = stored.record;
    return this.#end(stored, 'expired', deadlineError(deadlineMs - createdMs));
  }

  /** Ends a job from this side, and takes it out of its queue; a worker that has it in hand is told. */
  async #end(stored: StoredJob, state: JobState, error: InferError): Promise<boolean> {
    const { redis, link, keys, queues } = this.#options.pool;
    const { record, sequence, queueVersion } = stored;
    const isFirst = await this.#ask(() => finishJob(redis, record.id, link.now(), { state, error }, keys));
    if (!isFirst) return false;
    try {
      const removed = await this.#ask(() => queues.of(record.model, queueVersion).remove(record.id));
      if (removed !== 1) this.#cancels.add(sequence, Infinity);
    } catch (cause) {
      // Its record is over: whoever takes it drops it.
      this.#options.logger.debug({ job: record.id, error: String(cause) }, 'job left in its queue');
    }
    return true;
  }

  #tell(id: string, state: JobState): void {
    for (const listener of [...this.#listeners]) listener(id, state);
  }

  /** While Redis is away nothing waits for it long: a command that was on its way would wait until it comes back. */
  async #ask<T>(question: () => Promise<T>, timeoutMs = ANSWER_MS): Promise<T> {
    const { link } = this.#options.pool;
    if (link.state.kind === 'down') link.assertUsable();
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      const error = new InferError('UNAVAILABLE', 'the queue is not reachable: Redis does not answer');
      timer = setTimeout(reject, timeoutMs, error);
    });
    try {
      return await Promise.race([question(), late]);
    } catch (cause) {
      if (cause instanceof InferError) throw cause;
      const isFull = cause instanceof Error && cause.message.includes('OOM');
      if (isFull) link.reportStorageFull();
      throw new InferError('UNAVAILABLE', isFull ? 'queue storage full' : 'the queue refused the request', { cause });
    } finally {
      clearTimeout(timer);
    }
  }
}
