import type { JobRecord } from '../../../shared/jobs/job.ts';
import type { Clock } from '../../../shared/runtime/clock.ts';
import type { Logger } from '../../../shared/runtime/logger.ts';
import type { Jobs } from '../jobs/jobs.ts';
import { MAX_TRIES, webhookRetryMs } from './webhook-retry.ts';
import type { WebhookMessage, WebhookSender } from './webhook-sender.ts';

export interface MemoryWebhooksOptions {
  readonly jobs: Pick<Jobs, 'get' | 'noteWebhook' | 'onEnd'>;
  readonly sender: WebhookSender;
  /** The body of the message about a job that is over. */
  readonly encode: (record: JobRecord) => object;
  readonly clock: Clock;
  readonly logger: Logger;
}

interface Delivery extends WebhookMessage {
  tries: number;
}

/** Receivers that are talked to at one time. */
const MAX_AT_ONCE = 16;
/** Messages that wait for their first or next try, each of some KB; more are given up. */
const MAX_WAITING = 10_000;

/** Tells of the ends of jobs of this process, for as long as it lives. */
export class MemoryWebhooks {
  readonly #options: MemoryWebhooksOptions;
  readonly #due: Delivery[] = [];
  /** Ends the timers of those that wait for their next try. */
  readonly #timers = new Set<() => void>();
  readonly #running = new Set<Promise<void>>();
  readonly #cut = new AbortController();
  #stopListening: () => void = () => undefined;
  #closed = false;

  constructor(options: MemoryWebhooksOptions) {
    this.#options = options;
  }

  start(): void {
    this.#stopListening = this.#options.jobs.onEnd((id) => void this.#take(id));
  }

  /** What is on its way is waited for; what waits is given up. */
  async close(graceMs: number): Promise<void> {
    this.#closed = true;
    this.#stopListening();
    for (const cancelTimer of this.#timers) cancelTimer();
    const left = this.#timers.size + this.#due.length;
    if (left > 0) this.#options.logger.warn({ webhooks: left }, 'webhooks not delivered at the end');
    const cancelTimer = this.#options.clock.setTimer(() => this.#cut.abort(), graceMs);
    await Promise.all(this.#running);
    cancelTimer();
  }

  /** Never rejects. */
  async #take(id: string): Promise<void> {
    const { jobs, encode, logger } = this.#options;
    try {
      const { record } = await jobs.get(id);
      if (!record.webhook || this.#closed) return;
      if (this.#due.length + this.#timers.size >= MAX_WAITING) {
        logger.warn({ job: id }, 'webhook given up, too many wait');
        await jobs.noteWebhook(id, { state: 'failed', attempts: 0 });
        return;
      }
      this.#due.push({ id, url: record.webhook.url, body: JSON.stringify(encode(record)), tries: 0 });
      this.#pump();
    } catch (error) {
      logger.debug({ job: id, error: String(error) }, 'webhook not sent');
    }
  }

  #pump(): void {
    while (!this.#closed && this.#running.size < MAX_AT_ONCE) {
      const next = this.#due.shift();
      if (!next) return;
      const run = this.#try(next).finally(() => {
        this.#running.delete(run);
        this.#pump();
      });
      this.#running.add(run);
    }
  }

  /** Never rejects. */
  async #try(delivery: Delivery): Promise<void> {
    const { jobs, sender, clock, logger } = this.#options;
    const { id } = delivery;
    const outcome = await sender.send(delivery, this.#cut.signal);
    const attempts = (delivery.tries += 1);
    const over = outcome.kind !== 'again' || attempts >= MAX_TRIES;
    const state = outcome.kind === 'delivered' ? 'delivered' : over ? 'failed' : 'pending';
    await jobs.noteWebhook(id, { state, attempts }).catch(() => undefined); // its record may be gone
    if (outcome.kind !== 'delivered') {
      logger.debug({ job: id, attempts, reason: outcome.reason }, over ? 'webhook given up' : 'webhook not delivered');
    }
    if (over || this.#closed) return;
    const cancelTimer = clock.setTimer(() => {
      this.#timers.delete(cancelTimer);
      this.#due.push(delivery);
      this.#pump();
    }, webhookRetryMs(attempts));
    this.#timers.add(cancelTimer);
  }
}
