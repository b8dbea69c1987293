import type { Redis } from 'ioredis';
import { isOver } from '../../../shared/jobs/job.ts';
import type { Logger } from '../../../shared/runtime/logger.ts';
import type { RedisLink } from '../../../shared/runtime/redis-link.ts';
import { JOBS_EXPIRY_KEY, JOBS_KEY, JOBS_OPEN_KEY, jobRecordKey } from '../../../shared/wire/names.ts';
import type { StoredJob } from './stored-job.ts';

export interface JobSweeperOptions {
  readonly redis: Redis;
  readonly link: RedisLink;
  /** Undefined for a hash that is no record of ours. */
  readonly decode: (id: string, fields: Readonly<Record<string, string>>) => StoredJob | undefined;
  /** Ends a job whose deadline has passed. */
  readonly expire: (stored: StoredJob) => Promise<unknown>;
  /** Takes a job back that is not in its queue. */
  readonly withdraw: (stored: StoredJob) => Promise<unknown>;
  readonly logger: Logger;
}

/** How often jobs are looked for whose time is over. */
const SWEEP_MS = 1000;
const SWEEP_COUNT = 200;
const PRUNE_COUNT = 5000;
/** Jobs whose submission failed and that are still to be taken back; more are left to their deadlines. */
const MAX_ABANDONED = 10_000;

/** Ends jobs whose time is over, takes back those that were not taken, and forgets records that have expired. */
export class JobSweeper {
  readonly #options: JobSweeperOptions;
  /** Jobs whose client was told that they were not taken, and that may be in Redis all the same. */
  readonly #abandoned = new Map<string, StoredJob>();
  #timer: NodeJS.Timeout | undefined;
  #sweeping = false;

  constructor(options: JobSweeperOptions) {
    this.#options = options;
  }

  start(): void {
    this.#timer = setInterval(() => void this.#sweep(), SWEEP_MS);
    this.#timer.unref();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  /** Is taken back as soon as Redis answers. */
  abandon(stored: StoredJob): void {
    if (this.#abandoned.size < MAX_ABANDONED) this.#abandoned.set(stored.record.id, stored);
  }

  async #sweep(): Promise<void> {
    const { redis, link, logger } = this.#options;
    if (this.#sweeping || link.state.kind !== 'up') return;
    this.#sweeping = true;
    let more = false;
    try {
      await this.#withdrawAbandoned();
      const nowMs = Math.round(link.now());
      const ids = await redis.zrangebyscore(JOBS_OPEN_KEY, '-inf', nowMs, 'LIMIT', 0, SWEEP_COUNT);
      let over = 0;
      for (const id of ids) if (await this.#end(id)) over += 1;
      more = ids.length === SWEEP_COUNT && over > 0;
      // Records go by themselves, the lists of them by this.
      const gone = await redis.zrangebyscore(JOBS_EXPIRY_KEY, '-inf', nowMs, 'LIMIT', 0, PRUNE_COUNT);
      if (gone.length > 0) {
        await Promise.all([JOBS_KEY, JOBS_OPEN_KEY, JOBS_EXPIRY_KEY].map((key) => redis.zrem(key, ...gone)));
      }
    } catch (error) {
      more = false; // the next turn tries again
      logger.debug({ error: String(error) }, 'jobs not swept');
    } finally {
      this.#sweeping = false;
    }
    if (more) void this.#sweep();
  }

  /** Whether the job is over now. What keeps one from its end is no reason to leave the others open. */
  async #end(id: string): Promise<boolean> {
    const { redis, link, decode, expire, logger } = this.#options;
    try {
      const stored = decode(id, await redis.hgetall(jobRecordKey(id)));
      if (!stored || isOver(stored.record.state)) await redis.zrem(JOBS_OPEN_KEY, id);
      else await expire(stored);
      return true;
    } catch (error) {
      if (link.state.kind !== 'up') throw error;
      logger.warn({ job: id, error: String(error) }, 'job not ended at its deadline');
      return false;
    }
  }

  async #withdrawAbandoned(): Promise<void> {
    const some = [...this.#abandoned.values()].slice(0, SWEEP_COUNT);
    await Promise.all(
      some.map(async (stored) => {
        await this.#options.withdraw(stored);
        this.#abandoned.delete(stored.record.id);
      }),
    );
  }
}
