import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { describeControlFiles, removeControlFiles, storeControlFiles } from '../../shared/directory/control-files.ts';
import { type ErrorCode, InferError } from '../../shared/errors.ts';
import { controlRefused } from '../../shared/infer/not-served.ts';
import type { ModelControl, ModelOverride } from '../../shared/infer/ports.ts';
import type { RedisLink } from '../../shared/runtime/redis-link.ts';
import { takeRedisLock } from '../../shared/runtime/redis-lock.ts';
import {
  type ControlEntry,
  controlField,
  decodeControlEntry,
  decodeControlResult,
  encodeControlEntry,
} from '../../shared/wire/control.ts';
import { CONTROL_KEY, controlLockKey, controlResultKey } from '../../shared/wire/names.ts';
import type { QueueKeys } from '../../shared/wire/queue-keys.ts';
import { openText, sealText } from '../../shared/wire/sealed.ts';
import type { CatalogFeed } from './catalog-feed.ts';

export interface QueueControlOptions {
  readonly redis: Redis;
  readonly link: RedisLink;
  readonly feed: CatalogFeed;
  /** Signs what is asked and checks what came of it; undefined where that is not signed. */
  readonly keys?: QueueKeys | undefined;
}

const LOOK_MS = 50;
/** Longest time for all workers to do what they were asked, and to wait for the change before, in ms. */
const TIMEOUT_MS = 600_000;

/** What one worker answered. */
interface WorkerResult {
  readonly worker: string;
  readonly error: InferError | undefined;
}

/**
 * Loads and unloads on all workers of the pool that take it. What was asked last stays written down, and workers that join
 * later do it too.
 */
export class QueueControl implements ModelControl {
  readonly #options: QueueControlOptions;

  constructor(options: QueueControlOptions) {
    this.#options = options;
  }

  async load(model: string, { config, files = new Map() }: ModelOverride = {}): Promise<void> {
    const described = describeControlFiles(model, files);
    await this.#ask(model, { id: newId(), action: 'load', config, files: described }, [...files.values()]);
  }

  async unload(model: string, dependents = false): Promise<void> {
    await this.#ask(model, { id: newId(), action: 'unload', dependents }, []);
  }

  /** A request has come for a model that no worker serves; those that load on demand do. */
  async wake(model: string): Promise<void> {
    await this.#ask(model, { id: newId(), action: 'wake' }, []);
  }

  async #ask(model: string, entry: ControlEntry, files: readonly Uint8Array[]): Promise<void> {
    const { redis, link, feed, keys } = this.#options;
    link.assertUsable();
    await feed.refresh();
    if (feed.catalog.controlledWorkers().length === 0) {
      const why = 'no worker of the pool was started with --model-control-mode=explicit';
      throw controlRefused(model, entry.action === 'unload' ? 'unload' : 'load', why);
    }
    const release = await takeRedisLock(redis, controlLockKey(model), TIMEOUT_MS);
    /** What is not asked for any more at the end. */
    let over: ControlEntry | undefined = entry;
    try {
      await storeControlFiles(redis, entry.id, files);
      const field = controlField(model, entry);
      const before = await redis.hget(CONTROL_KEY, field);
      if (entry.action === 'unload' && before === null && !feed.catalog.names().includes(model)) return;
      await this.#write(field, entry);
      let failure: InferError | undefined;
      try {
        failure = failureOf(await this.#results(entry.id));
        await feed.refresh();
      } catch (error) {
        failure = InferError.from(error);
      }
      if (!failure && entry.action !== 'wake') {
        over = this.#decode(field, before);
        return;
      }
      // Workers that join later do what was asked before, as those that could not change still do.
      const last = this.#decode(field, before);
      if (last) await this.#write(field, last);
      else if (before === null || keys) await redis.hdel(CONTROL_KEY, field);
      else await redis.hset(CONTROL_KEY, field, before); // another version of Millrace may know it
      if (failure) throw failure;
    } finally {
      if (over) await removeControlFiles(redis, over).catch(() => undefined); // they expire
      await release();
    }
  }

  async #write(field: string, entry: ControlEntry): Promise<void> {
    const { redis, keys } = this.#options;
    const turned: ControlEntry = keys && entry.action !== 'wake' ? { ...entry, turn: newId() } : entry;
    await redis.hset(CONTROL_KEY, field, sealText(keys, 'control', field, encodeControlEntry(turned)));
  }

  /** Undefined where there is none, or one of another version of Millrace, or of a stranger. */
  #decode(field: string, text: string | null): ControlEntry | undefined {
    try {
      return text === null ? undefined : decodeControlEntry(openText(this.#options.keys, 'control', field, text));
    } catch {
      return undefined; // its files expire
    }
  }

  /** Of all workers that were there when it was asked and have not left since. */
  async #results(id: string): Promise<WorkerResult[]> {
    const { redis, link, feed, keys } = this.#options;
    const asked = feed.catalog.controlledWorkers();
    const untilMs = performance.now() + TIMEOUT_MS;
    for (;;) {
      const texts = await redis.hgetall(controlResultKey(id));
      const results = asked.flatMap((worker) => resultOf(id, worker, texts[worker], keys));
      const there = new Set(feed.catalog.controlledWorkers());
      const missing = asked.filter(
        (worker) => there.has(worker) && !results.some((result) => result.worker === worker),
      );
      if (missing.length === 0) return results;
      link.assertUsable();
      if (performance.now() > untilMs) {
        const who = `${missing.length} of ${asked.length} workers`;
        throw new InferError('UNAVAILABLE', `${who} have not done it within ${TIMEOUT_MS / 1000} s`);
      }
      await sleep(LOOK_MS);
    }
  }
}

/** One at most: what is not from the worker counts for nothing. */
function resultOf(id: string, worker: string, text: string | undefined, keys: QueueKeys | undefined): WorkerResult[] {
  if (text === undefined) return [];
  try {
    return [{ worker, ...decodeControlResult(openText(keys, 'control-result', `${id} ${worker}`, text)) }];
  } catch {
    return [];
  }
}

/** A worker whose repositories do not have the model has nothing to do with it, unless none has it. */
function failureOf(results: readonly WorkerResult[]): InferError | undefined {
  if (results.length === 0) return new InferError('UNAVAILABLE', 'the workers that were asked have left');
  const failed = results.filter(({ error }) => error !== undefined);
  const concerned = results.filter(({ error }) => error?.code !== 'NOT_FOUND');
  if (concerned.length === 0) return failed[0]?.error;
  const first =
    failed.find(({ error }) => error?.code !== 'NOT_FOUND' && error?.code !== 'UNAVAILABLE') ??
    failed.find(({ error }) => error?.code !== 'NOT_FOUND');
  if (!first?.error) return undefined;
  const { code, message }: { code: ErrorCode; message: string } = first.error;
  const done = concerned.length - failed.filter(({ error }) => error?.code !== 'NOT_FOUND').length;
  const how = concerned.length === 1 ? '' : ` (worker ${first.worker}; done on ${done} of ${concerned.length} workers)`;
  return new InferError(code, `${message}${how}`);
}

function newId(): string {
  return `c${randomBytes(12).toString('base64url')}`;
}
