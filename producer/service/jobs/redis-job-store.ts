import { createHash, randomBytes } from 'node:crypto';
import type { Redis } from 'ioredis';
import { InferError } from '../../../shared/errors.ts';
import { deadlineError } from '../../../shared/infer/deadline-error.ts';
import type { InferRequest } from '../../../shared/infer/request.ts';
import type { InferResponse } from '../../../shared/infer/response.ts';
import {
  createJobId,
  decodeJobRecord,
  isJobId,
  isOver,
  type JobRecord,
  type JobState,
  type WebhookProgress,
} from '../../../shared/jobs/job.ts';
import { finishJob, noteWebhook, submitJob, withdrawJob } from '../../../shared/jobs/job-scripts.ts';
import type { Logger } from '../../../shared/runtime/logger.ts';
import { closeRedis, connectRedis, createRedis } from '../../../shared/runtime/redis.ts';
import { encodeBundle } from '../../../shared/wire/job.ts';
import {
  JOBS_EXPIRY_KEY,
  JOBS_KEY,
  JOBS_OPEN_KEY,
  JOBS_PRODUCER,
  jobIdempotencyKey,
  jobRecordKey,
  jobResultKey,
} from '../../../shared/wire/names.ts';
import { decodeReplies } from '../../../shared/wire/reply.ts';
import { CancelWriter } from '../../dispatch/cancel-writer.ts';
import { conflict, tooMany } from './job-errors.ts';
import { EVENTS_BLOCK_MS, JobEventReader } from './job-event-reader.ts';
import { enqueueJob, findPosition, type JobPool } from './job-queue.ts';
import { webhookOf } from './job-settings.ts';
import type { AddedJob, JobListener, JobPage, JobQuery, JobStore, NewJob } from './job-store.ts';

export interface RedisJobStoreOptions {
  readonly pool: JobPool;
  readonly redisUrl: string;
  /** Jobs of all producers that may be open; more are refused. */
  readonly maxOpen: number;
  readonly logger: Logger;
}

const SILENCE_MS = 5000;
const ANSWER_MS = 5000;
/** Answers may be large. */
const RESULT_MS = 30_000;
/** How often jobs are looked for whose time is over. */
const SWEEP_MS = 1000;
const SWEEP_COUNT = 200;
const PRUNE_COUNT = 5000;
const LIST_CHUNK = 200;
/** Records that one page looks through. */
const LIST_LOOK = 2000;
/** A record outlives its deadline by this and the time to keep, in ms, in case no producer is there to end it. */
const RECORD_SLACK_MS = 60_000;

/** What the store alone needs to know of a job. */
interface StoredJob {
  readonly record: JobRecord;
  readonly sequence: number;
  readonly queueVersion: string;
  readonly payloadKeys: readonly string[];
}

/** Jobs of a pool: a record and an answer each in Redis, and a BullMQ job in the queue of the model while it is open. */
export class RedisJobStore implements JobStore {
  readonly #options: RedisJobStoreOptions;
  readonly #events: JobEventReader;
  readonly #reader: Redis;
  readonly #cancels: CancelWriter;
  readonly #listeners = new Set<JobListener>();
  #timer: NodeJS.Timeout | undefined;
  #sweeping = false;

  constructor(options: RedisJobStoreOptions) {
    this.#options = options;
    const { pool, redisUrl: url, logger } = options;
    this.#reader = createRedis({ url, name: 'millrace-jobs', silenceMs: EVENTS_BLOCK_MS + SILENCE_MS, logger });
    this.#events = new JobEventReader(this.#reader, (id, state) => this.#tell(id, state), logger);
    this.#cancels = new CancelWriter(pool.redis, pool.link, JOBS_PRODUCER, logger);
  }

  /** @throws InferError UNAVAILABLE when Redis cannot be reached. */
  async start(): Promise<void> {
    await connectRedis(this.#reader);
    await this.#events.start();
    this.#options.pool.link.onRestart(() => void this.#events.rewind().catch(() => undefined)); // it reads on from where it was
    this.#timer = setInterval(() => void this.#sweep(), SWEEP_MS);
    this.#timer.unref();
  }

  async add(job: NewJob): Promise<AddedJob> {
    const { redis, link, versionQueues } = this.#options.pool;
    link.assertUsable();
    const nowMs = Math.round(link.now());
    const { request, settings, idempotency } = job;
    const record: JobRecord = {
      id: createJobId(nowMs),
      model: request.model,
      version: request.version,
      state: 'queued',
      createdMs: nowMs,
      dueMs: nowMs + settings.delayMs,
      deadlineMs: nowMs + settings.delayMs + settings.timeoutMs,
      startedMs: undefined,
      finishedMs: undefined,
      keepMs: settings.keepMs,
      priority: settings.priority,
      runs: 0,
      maxAttempts: settings.maxAttempts,
      error: undefined,
      answer: job.answer,
      webhook: webhookOf(job),
      tenant: job.tenant,
    };
    const queueVersion = versionQueues.choose(request.model, request.version);
    const sequence = randomBytes(6).readUIntBE(0, 6);
    const bundle = bundleOf(record, sequence, job);
    const payloadKeys = bundle.payloads.map(({ key }) => key);
    const submitted = await this.#ask(() =>
      submitJob(
        redis,
        {
          id: record.id,
          nowMs,
          deadlineMs: record.deadlineMs,
          ttlMs: record.deadlineMs - nowMs + settings.keepMs + RECORD_SLACK_MS,
          idempotency: idempotency && { key: keyOf(idempotency.key), fingerprint: idempotency.fingerprint },
          fields: fieldsOf({ record, sequence, queueVersion, payloadKeys }),
        },
        this.#options.maxOpen,
      ),
    );
    if (submitted.kind === 'full') throw tooMany(submitted.open);
    if (submitted.kind === 'known') {
      if (submitted.fingerprint !== idempotency?.fingerprint) throw conflict(submitted.id);
      return { record: await this.#attach(submitted.id, job), created: false };
    }
    try {
      await this.#ask(() => enqueueJob(this.#options.pool, record, queueVersion, bundle));
    } catch (error) {
      await this.#ask(() => withdrawJob(redis, record.id)).catch(() => undefined); // then it expires
      throw error;
    }
    return { record, created: true };
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
    const frame = await this.#ask(() => this.#options.pool.redis.getBuffer(jobResultKey(id)), RESULT_MS);
    if (!frame) return undefined;
    const [reply] = decodeReplies(frame);
    return reply && 'response' in reply ? reply.response : undefined;
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
    clearInterval(this.#timer);
    await this.#events.close();
    await closeRedis(this.#reader);
  }

  /** The job that a key stands for. Whoever made it may have died before it was in its queue; then it gets there now. */
  async #attach(id: string, job: NewJob): Promise<JobRecord> {
    const { pool } = this.#options;
    const stored = await this.#load(id);
    if (!stored) throw new InferError('UNAVAILABLE', 'the job that the key stands for has just gone, try again');
    const { record, queueVersion, sequence } = stored;
    if (record.state !== 'queued') return record;
    const queued = await this.#ask(() => pool.queues.of(record.model, queueVersion).getJob(id));
    if (!queued) {
      const request: InferRequest = { ...job.request, version: record.version };
      const bundle = bundleOf(record, sequence, { ...job, request });
      await this.#ask(() => enqueueJob(pool, record, queueVersion, bundle));
    }
    return record;
  }

  async #load(id: string): Promise<StoredJob | undefined> {
    if (!isJobId(id)) return undefined;
    const { redis, link } = this.#options.pool;
    const stored = decodeStored(id, await this.#ask(() => redis.hgetall(jobRecordKey(id))));
    if (!stored || isOver(stored.record.state) || stored.record.deadlineMs > link.now()) return stored;
    await this.#expire(stored);
    return decodeStored(id, await this.#ask(() => redis.hgetall(jobRecordKey(id))));
  }

  async #readAll(ids: readonly string[]): Promise<(JobRecord | undefined)[]> {
    if (ids.length === 0) return [];
    const pipeline = this.#options.pool.redis.pipeline();
    for (const id of ids) pipeline.hgetall(jobRecordKey(id));
    const answers = (await this.#ask(() => pipeline.exec())) ?? [];
    return answers.map(([error, fields], index) => {
      if (error) return undefined;
      return decodeStored(ids[index] ?? '', fields as Record<string, string>)?.record; // what HGETALL gives
    });
  }

  #expire(stored: StoredJob): Promise<boolean> {
    const { createdMs, deadlineMs } = stored.record;
    return this.#end(stored, 'expired', deadlineError(deadlineMs - createdMs));
  }

  /** Ends a job from this side, and takes it out of its queue; a worker that has it in hand is told. */
  async #end(stored: StoredJob, state: JobState, error: InferError): Promise<boolean> {
    const { redis, link, queues } = this.#options.pool;
    const { record, sequence, queueVersion, payloadKeys } = stored;
    const isFirst = await this.#ask(() => finishJob(redis, record.id, link.now(), { state, error }));
    if (!isFirst) return false;
    try {
      const removed = await queues.of(record.model, queueVersion).remove(record.id);
      if (removed === 1 && payloadKeys.length > 0) await redis.unlink(...payloadKeys);
      if (removed !== 1) this.#cancels.add(sequence, Infinity);
    } catch (cause) {
      // Its record is over: whoever takes it drops it.
      this.#options.logger.debug({ job: record.id, error: String(cause) }, 'job left in its queue');
    }
    return true;
  }

  async #sweep(): Promise<void> {
    const { redis, link } = this.#options.pool;
    if (this.#sweeping || link.state.kind !== 'up') return;
    this.#sweeping = true;
    let ids: string[] = [];
    try {
      const nowMs = Math.round(link.now());
      ids = await redis.zrangebyscore(JOBS_OPEN_KEY, '-inf', nowMs, 'LIMIT', 0, SWEEP_COUNT);
      for (const id of ids) {
        const stored = decodeStored(id, await redis.hgetall(jobRecordKey(id)));
        if (!stored || isOver(stored.record.state)) await redis.zrem(JOBS_OPEN_KEY, id);
        else await this.#expire(stored);
      }
      // Records go by themselves, the lists of them by this.
      const gone = await redis.zrangebyscore(JOBS_EXPIRY_KEY, '-inf', nowMs, 'LIMIT', 0, PRUNE_COUNT);
      if (gone.length > 0) {
        await Promise.all([JOBS_KEY, JOBS_OPEN_KEY, JOBS_EXPIRY_KEY].map((key) => redis.zrem(key, ...gone)));
      }
    } catch (error) {
      ids = []; // the next turn tries again
      this.#options.logger.debug({ error: String(error) }, 'jobs not swept');
    } finally {
      this.#sweeping = false;
    }
    if (ids.length === SWEEP_COUNT) void this.#sweep(); // there may be more
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

function bundleOf(record: JobRecord, sequence: number, { request, callId, level }: NewJob) {
  const { id, model, deadlineMs, createdMs } = record;
  const item = { sequence, callId, request, priority: level, deadlineMs };
  return encodeBundle(JOBS_PRODUCER, id, model, [item], { id, timeoutMs: deadlineMs - createdMs });
}

function fieldsOf({ record, sequence, queueVersion, payloadKeys }: StoredJob): Record<string, string | number> {
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

function decodeStored(id: string, fields: Readonly<Record<string, string>>): StoredJob | undefined {
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

function keyOf(text: string): string {
  return jobIdempotencyKey(createHash('sha256').update(text).digest('hex'));
}
