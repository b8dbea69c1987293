import type { Redis } from 'ioredis';
import { sha256Hex } from '../../shared/sha256.ts';
import { ControlFileLease } from '../../shared/directory/control-files.ts';
import { InferError } from '../../shared/errors.ts';
import type { ModelControl, ModelOverride } from '../../shared/infer/ports.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { RedisLink } from '../../shared/runtime/redis-link.ts';
import { takeRedisLock } from '../../shared/runtime/redis-lock.ts';
import {
  CONTROL_RESULT_TTL_MS,
  type ControlEntry,
  type ControlFile,
  decodeControlEntry,
  type ControlResult,
  decodeControlResult,
  encodeControlResult,
} from '../../shared/wire/control.ts';
import { CONTROL_KEY, controlFileKey, controlResultKey, encodeModelName, turnKey } from '../../shared/wire/names.ts';
import type { QueueKeys } from '../../shared/wire/queue-keys.ts';
import { openText, sealText } from '../../shared/wire/sealed.ts';

export interface PoolControlOptions {
  readonly redis: Redis;
  readonly link: RedisLink;
  readonly workerId: string;
  /** Undefined where models are not loaded and unloaded on request. */
  readonly control: ModelControl | undefined;
  /** Loads a model that a request has come for, where the worker does that. */
  readonly wake: (model: string) => Promise<void> | undefined;
  /** Resolves when the pool knows what this worker serves now. */
  readonly announce: () => Promise<void>;
  /** Checks what the pool asks and signs what came of it; undefined where that is not signed. */
  readonly keys?: QueueKeys | undefined;
  readonly logger: Logger;
}

const LOOK_MS = 200;
/** How long a worker waits for the others to replace a model, in ms. */
const TURN_WAIT_MS = 600_000;
const MAX_SEEN_TURNS = 10_000;

/**
 * Does on this worker what the pool is asked to do with its models: now, and when it joins what was asked before. Workers
 * that replace a model do so one after the other, and when one cannot, those behind it keep what they have.
 */
export class PoolControl {
  readonly #options: PoolControlOptions;
  /** By encoded model name, the id of the last entry that was taken up. */
  readonly #taken = new Map<string, string>();
  /** By encoded model name, the work on it. */
  readonly #working = new Map<string, Promise<void>>();
  /** By encoded model name, what ends this worker's turn. */
  readonly #turns = new Map<string, () => Promise<void>>();
  readonly #seenTurns = new Set<string>();
  readonly #lease: ControlFileLease;
  #lastText = '';
  #timer: NodeJS.Timeout | undefined;
  #looking = false;

  constructor(options: PoolControlOptions) {
    this.#options = options;
    this.#lease = new ControlFileLease(options.redis, options.logger);
  }

  /** Resolves when this worker is where the pool is. */
  async start(): Promise<void> {
    if (!this.#options.control) return;
    await this.#look();
    await Promise.all(this.#working.values());
    this.#timer = setInterval(() => void this.#look(), LOOK_MS);
    this.#timer.unref();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  /** This worker's turn to replace a model. @throws InferError UNAVAILABLE when a worker before it could not */
  readonly take = async (model: string): Promise<() => Promise<void>> => {
    const { redis, link } = this.#options;
    if (link.state.kind !== 'up') return () => Promise.resolve(); // a pool without Redis has nothing to order
    const end = await takeRedisLock(redis, turnKey(model), TURN_WAIT_MS);
    try {
      await this.#assertNobodyFailed(model);
    } catch (error) {
      await end();
      throw error;
    }
    // The turn of a change that the pool asked for ends when its result can be read by the next in turn.
    const field = encodeModelName(model);
    if (!this.#working.has(field)) return end;
    this.#turns.set(field, end);
    return () => Promise.resolve();
  };

  async #assertNobodyFailed(model: string): Promise<void> {
    const id = this.#taken.get(encodeModelName(model));
    if (id === undefined) return;
    const { redis, keys } = this.#options;
    for (const [worker, text] of Object.entries(await redis.hgetall(controlResultKey(id)))) {
      const error = errorOf(text, `${id} ${worker}`, keys);
      if (!error || error.code === 'NOT_FOUND') continue;
      throw new InferError('UNAVAILABLE', `not tried here, since another worker failed: ${error.message}`);
    }
  }

  async #look(): Promise<void> {
    const { redis, link, logger } = this.#options;
    if (this.#looking || link.state.kind !== 'up') return;
    this.#looking = true;
    try {
      await this.#lease.tend();
      const entries = await redis.hgetall(CONTROL_KEY);
      const text = JSON.stringify(entries);
      if (text === this.#lastText) return;
      for (const [field, entry] of Object.entries(entries)) this.#takeUp(field, entry);
      this.#lastText = text;
    } catch (error) {
      logger.warn({ error: String(error) }, 'control entries not read');
    } finally {
      this.#looking = false;
    }
  }

  #takeUp(field: string, text: string): void {
    let entry: ControlEntry;
    try {
      entry = decodeControlEntry(openText(this.#options.keys, 'control', field, text));
      this.#assertNew(field, entry);
    } catch (error) {
      this.#options.logger.warn({ error: String(error) }, 'control entry skipped');
      return;
    }
    if (this.#taken.get(field) === entry.id) return;
    this.#taken.set(field, entry.id);
    const before = this.#working.get(field) ?? Promise.resolve();
    const work = before.then(() => this.#work(decodeName(field), entry));
    this.#working.set(field, work);
    void work.then(() => {
      if (this.#working.get(field) === work) this.#working.delete(field);
    });
  }

  /** One that was put back after another had taken its place is not taken up again. */
  #assertNew(field: string, entry: ControlEntry): void {
    const { keys } = this.#options;
    if (!keys || entry.action === 'wake' || entry.turn === undefined || this.#taken.get(field) === entry.id) return;
    if (this.#seenTurns.has(entry.turn)) throw keys.refuse('control', 'the entry was here before');
    const [oldest = ''] = this.#seenTurns;
    if (this.#seenTurns.size >= MAX_SEEN_TURNS) this.#seenTurns.delete(oldest);
    this.#seenTurns.add(entry.turn);
  }

  async #work(model: string, entry: ControlEntry): Promise<void> {
    const { redis, workerId, keys, logger } = this.#options;
    const error = await this.#apply(model, entry).then(
      () => undefined,
      (cause: unknown) => InferError.from(cause),
    );
    if (error) logger.warn({ model, action: entry.action, reason: error.message }, 'the pool asked in vain');
    const key = controlResultKey(entry.id);
    const result = sealText(keys, 'control-result', `${entry.id} ${workerId}`, encodeControlResult({ error }));
    try {
      await this.#options.announce();
      await redis.pipeline().hset(key, workerId, result).pexpire(key, CONTROL_RESULT_TTL_MS).exec();
    } catch (cause) {
      logger.warn({ model, error: String(cause) }, 'result of a control entry not written');
    } finally {
      const field = encodeModelName(model);
      const endTurn = this.#turns.get(field);
      this.#turns.delete(field);
      await endTurn?.();
    }
  }

  async #apply(model: string, entry: ControlEntry): Promise<void> {
    const { control, wake } = this.#options;
    if (entry.action === 'wake') return wake(model);
    if (!control) return;
    if (entry.action === 'unload') return control.unload(model, entry.dependents);
    const files = await this.#readFiles(entry.id, entry.files);
    const override: ModelOverride = {
      ...(entry.config !== undefined && { config: entry.config }),
      ...(files.size > 0 && { files }),
    };
    return control.load(model, override);
  }

  async #readFiles(load: string, files: readonly ControlFile[]): Promise<Map<string, Uint8Array>> {
    const contents = new Map<string, Uint8Array>();
    for (const { path, sha256: hash, byteLength } of files) {
      const content = await this.#options.redis.getBuffer(controlFileKey(load, hash));
      if (content?.byteLength !== byteLength || sha256Hex(content) !== hash) {
        throw new InferError('UNAVAILABLE', `the file ${path} that the load brought along is not there any more`);
      }
      contents.set(path, content);
    }
    return contents;
  }
}

/** The inverse of controlField, whatever the action. */
function decodeName(encoded: string): string {
  return decodeURIComponent(encoded.replace(/!$/, '').replaceAll('~', '%'));
}

/** What is not from a worker of the pool counts for nothing. */
function errorOf(text: string, about: string, keys: QueueKeys | undefined): ControlResult['error'] {
  try {
    return decodeControlResult(openText(keys, 'control-result', about, text)).error;
  } catch {
    return undefined;
  }
}
