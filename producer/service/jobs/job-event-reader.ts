import type { Redis } from 'ioredis';
import { isJobId, isJobState, type JobState } from '../../../shared/jobs/job.ts';
import type { Logger } from '../../../shared/runtime/logger.ts';
import { dropRedis } from '../../../shared/runtime/redis.ts';
import { within } from '../../../shared/runtime/within.ts';
import { JOBS_EVENTS_KEY } from '../../../shared/wire/names.ts';

export const EVENTS_BLOCK_MS = 2000;
const READ_COUNT = 500;
const RETRY_MS = 100;
/** A connection on which nothing comes any more is cut after 2 s. */
const CLOSE_MS = 3000;

/**
 * Reads what happens to the jobs of the pool, from the time of its start on. A connection that breaks loses nothing: it
 * goes on where it was.
 */
export class JobEventReader {
  readonly #reader: Redis;
  readonly #logger: Logger;
  readonly #onEvent: (id: string, state: JobState) => void;
  #lastId = '$';
  #loop: Promise<void> | undefined;
  #closed = false;

  /** @param reader a connection of its own, which `close` ends */
  constructor(reader: Redis, onEvent: (id: string, state: JobState) => void, logger: Logger) {
    this.#reader = reader;
    this.#onEvent = onEvent;
    this.#logger = logger;
  }

  /** Resolves when everything from now on will be read. */
  async start(): Promise<void> {
    await this.rewind();
    this.#loop = this.#run();
  }

  /** Goes on from the end of the stream: Redis came back as another, whose entries may begin lower. */
  async rewind(): Promise<void> {
    const [last] = await this.#reader.xrevrange(JOBS_EVENTS_KEY, '+', '-', 'COUNT', 1);
    this.#lastId = last?.[0] ?? '0-0';
  }

  async close(): Promise<void> {
    this.#closed = true;
    dropRedis(this.#reader);
    await within(this.#loop ?? Promise.resolve(), CLOSE_MS);
  }

  async #run(): Promise<void> {
    while (!this.#isClosed()) {
      try {
        const answer = await this.#reader.xread(
          'COUNT',
          READ_COUNT,
          'BLOCK',
          EVENTS_BLOCK_MS,
          'STREAMS',
          JOBS_EVENTS_KEY,
          this.#lastId,
        );
        for (const [, entries] of answer ?? []) for (const [entry, fields] of entries) this.#take(entry, fields);
      } catch (error) {
        if (this.#isClosed()) return;
        this.#logger.warn({ error: String(error) }, 'job events not read');
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
    }
  }

  /** A method, as the answer may change while the loop waits. */
  #isClosed(): boolean {
    return this.#closed;
  }

  #take(entry: string, fields: readonly string[]): void {
    this.#lastId = entry;
    const [, id, , state] = fields;
    if (isJobId(id) && isJobState(state)) this.#onEvent(id, state);
  }
}
