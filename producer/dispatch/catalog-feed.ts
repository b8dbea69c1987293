import type { Redis } from 'ioredis';
import { DirectoryReader, type DirectorySnapshot } from '../../shared/directory/directory-reader.ts';
import { createStoredFiles } from '../../shared/directory/stored-files.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { RedisLink } from '../../shared/runtime/redis-link.ts';
import { QueueCatalog } from './queue-catalog.ts';

const POLL_MS = 500;
/** After a restart of Redis, models that it has lost stay known until their workers have had time to come back, in ms. */
const REMEMBER_MS = 30_000;

/** Keeps a catalog in step with the directory. Two small reads a poll while nothing changes. */
export class CatalogFeed {
  readonly catalog: QueueCatalog;
  readonly #reader: DirectoryReader;
  readonly #link: RedisLink;
  readonly #logger: Logger;
  #timer: NodeJS.Timeout | undefined;
  #reading = false;
  #rememberUntilMs = -Infinity;
  #descriptions: DirectorySnapshot['descriptions'] = new Map();

  constructor(redis: Redis, link: RedisLink, logger: Logger) {
    this.catalog = new QueueCatalog((description) => createStoredFiles(redis, description.files));
    this.#reader = new DirectoryReader(redis, logger);
    this.#link = link;
    this.#logger = logger;
  }

  /** Resolves when the catalog has been read once. */
  async start(): Promise<void> {
    await this.#refresh();
    this.#link.onRestart(() => {
      this.#rememberUntilMs = performance.now() + REMEMBER_MS;
    });
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
      if (snapshot) this.#update(snapshot);
    } catch (error) {
      this.#logger.warn({ error: String(error) }, 'model directory not read');
    } finally {
      this.#reading = false;
    }
  }

  #update({ workers, descriptions }: DirectorySnapshot): void {
    const remembers = performance.now() < this.#rememberUntilMs;
    this.#descriptions = remembers ? new Map([...this.#descriptions, ...descriptions]) : descriptions;
    this.catalog.update({ workers, descriptions: this.#descriptions });
  }
}
