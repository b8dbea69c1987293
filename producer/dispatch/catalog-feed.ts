import type { Redis } from 'ioredis';
import { DirectoryReader, type DirectorySnapshot } from '../../shared/directory/directory-reader.ts';
import type { ModelDescription } from '../../shared/directory/model-description.ts';
import { createStoredFiles } from '../../shared/directory/stored-files.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { RedisLink } from '../../shared/runtime/redis-link.ts';
import { QueueCatalog } from './queue-catalog.ts';

const POLL_MS = 500;
/** Models that Redis has lost stay known until their workers have had time to write them again, in ms. */
const REMEMBER_MS = 30_000;

type Descriptions = DirectorySnapshot['descriptions'];

const NOTHING: DirectorySnapshot = { workers: [], descriptions: new Map() };

/** Keeps a catalog in step with the directory. Two small reads a poll while nothing changes. */
export class CatalogFeed {
  readonly catalog: QueueCatalog;
  readonly #reader: DirectoryReader;
  readonly #link: RedisLink;
  readonly #logger: Logger;
  readonly #readListeners: (() => void)[] = [];
  #timer: NodeJS.Timeout | undefined;
  #reading: Promise<void> | undefined;
  #rememberUntilMs = -Infinity;
  #remembers = false;
  #latest = NOTHING;
  /** Those of `#latest`, and while lost models are remembered theirs too. */
  #descriptions = NOTHING.descriptions;

  constructor(redis: Redis, link: RedisLink, logger: Logger) {
    this.catalog = new QueueCatalog((description) => createStoredFiles(redis, description.files));
    this.#reader = new DirectoryReader(redis, logger);
    this.#link = link;
    this.#logger = logger;
  }

  /** Resolves when the catalog has been read once. */
  async start(): Promise<void> {
    await this.refresh();
    this.#link.onRestart(() => {
      this.#rememberUntilMs = performance.now() + REMEMBER_MS;
    });
    this.#timer = setInterval(() => void this.refresh(), POLL_MS);
    this.#timer.unref();
  }

  /** Calls back whenever the directory has been read, changed or not. */
  onRead(listener: () => void): void {
    this.#readListeners.push(listener);
  }

  close(): void {
    clearInterval(this.#timer);
  }

  /** Resolves when the catalog knows what the directory said at the time of this call, or when that could not be read. */
  async refresh(): Promise<void> {
    await this.#reading; // which may have begun before
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined;
    });
    await this.#reading;
  }

  async #read(): Promise<void> {
    // While Redis is away the last known models stay, so that it can be said what is missing.
    if (this.#link.state.kind !== 'up') return;
    try {
      this.#update(await this.#reader.read());
      for (const listener of this.#readListeners) listener();
    } catch (error) {
      this.#logger.warn({ error: String(error) }, 'model directory not read');
    }
  }

  /** @param snapshot undefined when nothing has changed; then only the end of remembering may be due */
  #update(snapshot: DirectorySnapshot | undefined): void {
    const now = performance.now();
    if (snapshot && hasLost(this.#latest.descriptions, snapshot.descriptions))
      this.#rememberUntilMs = now + REMEMBER_MS;
    const remembers = now < this.#rememberUntilMs;
    if (!snapshot && remembers === this.#remembers) return;
    this.#remembers = remembers;
    this.#latest = snapshot ?? this.#latest;
    const { workers, descriptions } = this.#latest;
    this.#descriptions = remembers ? new Map([...this.#descriptions, ...descriptions]) : descriptions;
    this.catalog.update({ workers, descriptions: this.#descriptions });
  }
}

/**
 * Whether a model version is gone. Its description stays for an hour after the last worker that served it, so it was
 * lost: somebody emptied Redis (FLUSHALL) while it ran.
 */
function hasLost(before: Descriptions, after: Descriptions): boolean {
  if (before.size === 0) return false;
  const left = new Set(Array.from(after.values(), versionKey));
  for (const description of before.values()) if (!left.has(versionKey(description))) return true;
  return false;
}

function versionKey({ name, version }: ModelDescription): string {
  return `${name}/${version}`;
}
