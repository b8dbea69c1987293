import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import type { InferError } from '../../shared/errors.ts';
import {
  createToken,
  finishJob,
  type JobEnd,
  requeueJob,
  type Started,
  startJob,
} from '../../shared/jobs/job-scripts.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { RedisLink } from '../../shared/runtime/redis-link.ts';
import type { QueueKeys } from '../../shared/wire/queue-keys.ts';

export interface JobRecordsOptions {
  /** The connection for answers. */
  readonly redis: Redis;
  readonly link: RedisLink;
  /** Redis refuses an answer for want of memory; whoever can free some does it now. */
  readonly onStorageFull: () => void;
  /** Signs the ends of jobs; undefined where they are not signed. */
  readonly keys?: QueueKeys | undefined;
  readonly logger: Logger;
}

const STORAGE_RETRY_MS = 100;
const STORAGE_RETRIES = 300;

/** Writes down what becomes of jobs of the Jobs API, on the side of the worker. */
export class JobRecords {
  readonly #options: JobRecordsOptions;

  constructor(options: JobRecordsOptions) {
    this.#options = options;
  }

  start(id: string): Promise<Started> {
    const run = createToken();
    return this.#insist((redis, nowMs) => startJob(redis, id, run, nowMs));
  }

  requeue(id: string, run: string, error?: InferError): Promise<void> {
    return this.#insist((redis) => requeueJob(redis, id, run, error));
  }

  /** Resolves when Redis has the answer, or had one before. */
  async finish(id: string, end: JobEnd): Promise<void> {
    await this.#insist((redis, nowMs) => finishJob(redis, id, nowMs, end, this.#options.keys));
  }

  async #insist<T>(write: (redis: Redis, nowMs: number) => Promise<T>): Promise<T> {
    const { redis, link, onStorageFull, logger } = this.#options;
    for (let attempt = 0; ; attempt += 1) {
      try {
        return await write(redis, link.now());
      } catch (error) {
        const isFull = error instanceof Error && error.message.includes('OOM');
        if (!isFull || attempt >= STORAGE_RETRIES) throw error;
      }
      if (attempt === 0) logger.warn({}, 'redis is full, job record held back');
      onStorageFull();
      await sleep(STORAGE_RETRY_MS);
    }
  }
}
