import { type Job, Queue, UnrecoverableError, Worker } from 'bullmq';
import type { Redis } from 'ioredis';
import { InferError } from '../../../shared/errors.ts';
import { decodeJobRecord, isOver, type JobRecord } from '../../../shared/jobs/job.ts';
import { checkRecord } from '../../../shared/jobs/signed-record.ts';
import type { Logger } from '../../../shared/runtime/logger.ts';
import { closeRedis, connectRedis, createRedis } from '../../../shared/runtime/redis.ts';
import { within } from '../../../shared/runtime/within.ts';
import { QUEUE_PREFIX, WEBHOOK_QUEUE, WEBHOOKS_KEY } from '../../../shared/wire/names.ts';
import type { QueueKeys } from '../../../shared/wire/queue-keys.ts';
import { EVENTS_MAX_LENGTH, KEEP_FAILED } from '../../../shared/wire/queue-options.ts';
import type { JobStore } from '../jobs/job-store.ts';
import { MAX_TRIES, webhookRetryMs } from './webhook-retry.ts';
import type { WebhookSender } from './webhook-sender.ts';

export interface RedisWebhooksOptions {
  readonly redisUrl: string;
  readonly store: Pick<JobStore, 'read' | 'noteWebhook'>;
  readonly sender: WebhookSender;
  /** The body of the message about a job that is over. */
  readonly encode: (record: JobRecord) => object;
  /** Checks the ends of jobs and signs what lies in the queue of webhooks; undefined where that is not signed. */
  readonly keys?: QueueKeys | undefined;
  readonly logger: Logger;
}

/** What lies in the queue of webhooks; the id of the BullMQ job is that of the job. */
interface WebhookData {
  /** Where it goes, without what may be secret of it; for the dashboard. */
  readonly to: string;
  readonly url: string;
  readonly body: string;
  readonly key?: string;
  readonly mac?: string;
}

/** How often it is looked for jobs that are over. */
const MOVE_MS = 500;
const MOVE_COUNT = 200;
/** Looks a turn; a hash that was emptied has many empty places. */
const MAX_SCANS = 100;
/** Receivers that one producer talks to at one time. */
const MAX_AT_ONCE = 16;
/** A producer that dies with a webhook in hand leaves it to another one within the sum of these. */
const LOCK_MS = 15_000;
const STALLED_CHECK_MS = 5000;
/** Producers that may die with one webhook. */
const MAX_STALLED = 8;
const DRAIN_DELAY_SECONDS = 5;
/** Longest wait for Redis at the end, in ms. */
const TIDY_MS = 1000;
/** Longer than BullMQ's blocking read, which is up to 10 s, on the connection that it copies from ours. */
const SILENCE_MS = 15_000;

/**
 * Tells of the ends of jobs of a pool. Whoever ends a job leaves its webhook in one step with that in Redis; producers
 * bring it into a BullMQ queue, from which any of them sends it. A producer that dies takes none along.
 */
export class RedisWebhooks {
  readonly #options: RedisWebhooksOptions;
  readonly #redis: Redis;
  #queue: Queue<WebhookData> | undefined;
  readonly #cut = new AbortController();
  #worker: Worker<WebhookData> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #moving: Promise<void> | undefined;

  constructor(options: RedisWebhooksOptions) {
    const { redisUrl: url, logger } = options;
    this.#options = options;
    this.#redis = createRedis({ url, name: 'millrace-webhooks', silenceMs: SILENCE_MS, logger });
  }

  /** For the dashboard; none before the start. */
  queues(): readonly Queue[] {
    return this.#queue ? [this.#queue] : [];
  }

  /** @throws InferError UNAVAILABLE when Redis cannot be reached. */
  async start(): Promise<void> {
    const { logger } = this.#options;
    await connectRedis(this.#redis);
    const queue = new Queue<WebhookData>(WEBHOOK_QUEUE, {
      connection: this.#redis,
      prefix: QUEUE_PREFIX,
      streams: { events: { maxLen: EVENTS_MAX_LENGTH } },
      defaultJobOptions: {
        attempts: MAX_TRIES,
        backoff: { type: 'custom' },
        removeOnComplete: true,
        removeOnFail: KEEP_FAILED,
        stackTraceLimit: 0,
      },
    });
    queue.on('error', (error) => logger.debug({ error: error.message }, 'queue of webhooks: error'));
    const worker = new Worker<WebhookData>(WEBHOOK_QUEUE, (job) => this.#deliver(job), {
      connection: this.#redis,
      prefix: QUEUE_PREFIX,
      concurrency: MAX_AT_ONCE,
      lockDuration: LOCK_MS,
      stalledInterval: STALLED_CHECK_MS,
      maxStalledCount: MAX_STALLED,
      drainDelay: DRAIN_DELAY_SECONDS,
      settings: { backoffStrategy: (tries) => webhookRetryMs(tries) },
    });
    worker.on('error', (error) => logger.debug({ error: error.message }, 'worker of webhooks: error'));
    this.#queue = queue;
    this.#worker = worker;
    this.#timer = setInterval(() => {
      this.#moving ??= this.#move(queue).finally(() => (this.#moving = undefined));
    }, MOVE_MS);
    this.#timer.unref();
  }

  /** Takes nothing more; what is on its way is waited for, and cut after `graceMs`: then another producer tries again. */
  async close(graceMs: number): Promise<void> {
    clearInterval(this.#timer);
    const timer = setTimeout(() => this.#cut.abort(), graceMs);
    // Without Redis it would wait for it.
    const closed = this.#worker?.close(this.#redis.status !== 'ready');
    // Redis may go away in the middle of it, and then an answer comes when it is back.
    if (closed) await within(closed, graceMs + TIDY_MS).catch(() => false);
    clearTimeout(timer);
    if (this.#queue) await within(this.#queue.close(), TIDY_MS).catch(() => false);
    await closeRedis(this.#redis);
  }

  /** From where ends of jobs are left into the queue. Never rejects; what it does not reach waits for the next turn. */
  async #move(queue: Queue<WebhookData>): Promise<void> {
    let cursor = '0';
    try {
      for (let scan = 0; scan < MAX_SCANS; scan += 1) {
        const [next, entries] = await this.#redis.hscan(WEBHOOKS_KEY, cursor, 'COUNT', MOVE_COUNT);
        await this.#enqueue(queue, entries);
        cursor = next;
        if (cursor === '0') return;
      }
    } catch (error) {
      this.#options.logger.debug({ error: String(error) }, 'webhooks not queued');
    }
  }

  /** @param entries ids and records in turn */
  async #enqueue(queue: Queue<WebhookData>, entries: readonly string[]): Promise<void> {
    const ids: string[] = [];
    const adding: Promise<unknown>[] = [];
    for (let at = 0; at + 1 < entries.length; at += 2) {
      const id = entries[at] ?? '';
      const content = this.#contentOf(id, entries[at + 1] ?? '');
      ids.push(id);
      if (!content) continue;
      const data = { ...content, ...this.#options.keys?.sign('webhook', id, textOf(content)) };
      // The same id is there once, however many producers add it.
      adding.push(queue.add('webhook', data, { jobId: id }));
    }
    await Promise.all(adding);
    if (ids.length > 0) await this.#redis.hdel(WEBHOOKS_KEY, ...ids);
  }

  #contentOf(id: string, text: string): Pick<WebhookData, 'to' | 'url' | 'body'> | undefined {
    const { keys, encode, logger } = this.#options;
    try {
      const fields = fieldsOf(text);
      if (keys) checkRecord(keys, id, fields);
      const record = decodeJobRecord(id, fields);
      if (!record?.webhook || !isOver(record.state)) throw new Error('it is no ended job with a webhook');
      const { url } = record.webhook;
      return { to: new URL(url).origin, url, body: JSON.stringify(encode(record)) };
    } catch (error) {
      logger.debug({ error: String(error) }, 'webhook dropped'); // not written by us
      return undefined;
    }
  }

  async #deliver({ id = '', data, attemptsMade }: Job<WebhookData>): Promise<void> {
    const { store, sender, keys } = this.#options;
    try {
      keys?.check('webhook', id, textOf(data), data);
    } catch (error) {
      throw new UnrecoverableError(InferError.from(error).message);
    }
    // Two producers may have moved it, one of them after it was sent.
    if ((await store.read(id))?.webhook?.state === 'delivered') return;
    const outcome = await sender.send({ id, url: data.url, body: data.body }, this.#cut.signal);
    const attempts = attemptsMade + 1;
    if (outcome.kind === 'delivered') {
      await store.noteWebhook(id, { state: 'delivered', attempts });
      return;
    }
    const over = outcome.kind === 'ended' || attempts >= MAX_TRIES;
    await store.noteWebhook(id, { state: over ? 'failed' : 'pending', attempts });
    // The text is what the dashboard shows.
    throw over ? new UnrecoverableError(outcome.reason) : new Error(outcome.reason);
  }
}

/** What is signed of it. */
function textOf({ url, body }: WebhookData): string {
  return `${url}\n${body}`;
}

function fieldsOf(text: string): Record<string, string> {
  const list = JSON.parse(text) as unknown[];
  const pairs = list.flatMap((name, at) => (at % 2 === 0 ? [[String(name), String(list[at + 1])] as const] : []));
  return Object.fromEntries(pairs);
}
