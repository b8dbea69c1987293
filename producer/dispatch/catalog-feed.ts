import type { Redis } from 'ioredis';
import { DirectoryReader, type DirectorySnapshot } from '../../shared/directory/directory-reader.ts';
import { createStoredFiles } from '../../shared/directory/stored-files.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { RedisLink } from '../../shared/runtime/redis-link.ts';
import { modelField } from '../../shared/wire/names.ts';
import type { QueueKeys } from '../../shared/wire/queue-keys.ts';
import { QueueCatalog } from './queue-catalog.ts';

const POLL_MS = 500;
/** Models that Redis has lost stay known until their workers have had time to write them again, in ms. */
const REMEMBER_MS = 30_000;

type Descriptions = DirectorySnapshot['descriptions'];

const NOTHING: DirectorySnapshot = { workers: [], descriptions: new Map(), unloaded: new Set() };

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

  constructor(redis: Redis, link: RedisLink, logger: Logger, keys?: QueueKeys) {
    this.catalog = new QueueCatalog((description) => createStoredFiles(redis, description.files));
    this.#reader = new DirectoryReader(redis, logger, keys);
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

  /** Whether the last worker that had versions of the model has unloaded them, not long ago. */
  wasUnloaded(model: string): boolean {
    const { unloaded } = this.#latest;
    if (unloaded.size === 0) return false;
    const prefix = modelField(model, '');
    return [...unloaded].some((field) => field.startsWith(prefix));
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
    if (snapshot && hasLost(this.#latest.descriptions, snapshot)) this.#rememberUntilMs = now + REMEMBER_MS;
    const remembers = now < this.#rememberUntilMs;
    if (!snapshot && remembers === this.#remembers) return;
    this.#remembers = remembers;
    this.#latest = snapshot ?? this.#latest;
    const { workers, descriptions, unloaded } = this.#latest;
    const known = [...this.#descriptions].filter(([, { name, version }]) => !unloaded.has(modelField(name, version)));
    this.#descriptions = remembers ? new Map([...known, ...descriptions]) : descriptions;
    this.catalog.update({ workers, descriptions: this.#descriptions });
  }
}

/**
 * Whether a model version is gone that nobody has unloaded. Its description stays for days after the last worker that
 * served it, so it was lost: somebody emptied Redis (FLUSHALL) while it ran.
 */
function hasLost(before: Descriptions, { descriptions, unloaded }: DirectorySnapshot): boolean {
  if (before.size === 0) return false;
  const fields = (of: Descriptions) => Array.from(of.values(), ({ name, version }) => modelField(name, version));
  const left = new Set([...fields(descriptions), ...unloaded]);
  return fields(before).some((field) => !left.has(field));
}
