import type { Redis } from 'ioredis';
import { DirectoryReader } from '../../shared/directory/directory-reader.ts';
import { createStoredFiles } from '../../shared/directory/stored-files.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { RedisLink } from '../../shared/runtime/redis-link.ts';
import { QueueCatalog } from './queue-catalog.ts';

const POLL_MS = 500;

/** Keeps a catalog in step with the directory. Two small reads a poll while nothing changes. */
export class CatalogFeed {
  readonly catalog: QueueCatalog;
  readonly #reader: DirectoryReader;
  readonly #link: RedisLink;
  readonly #logger: Logger;
  #timer: NodeJS.Timeout | undefined;
  #reading = false;

  constructor(redis: Redis, link: RedisLink, logger: Logger) {
    this.catalog = new QueueCatalog((description) => createStoredFiles(redis, description.files));
    this.#reader = new DirectoryReader(redis, logger);
    this.#link = link;
    this.#logger = logger;
  }

  /** Resolves when the catalog has been read once. */
  async start(): Promise<void> {
    await this.#refresh();
    this.#timer = setInterval(() => void this.#refresh(), POLL_MS);
    this.#timer.unref();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  async #refresh(): Promise<void> {
    // While Redis is away the last known models stay, so that it can be said what is missing.
    if (this.#reading || this.#link.state.kind !== 'up') return;
    this.#reading = true;
    try {
      const snapshot = await this.#reader.read();
      if (snapshot) this.catalog.update(snapshot);
    } catch (error) {
      this.#logger.warn({ error: String(error) }, 'model directory not read');
    } finally {
      this.#reading = false;
    }
  }
}
