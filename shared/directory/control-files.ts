import type { Redis } from 'ioredis';
import { sha256Hex } from '../sha256.ts';
import { InferError } from '../errors.ts';
import type { Logger } from '../runtime/logger.ts';
import {
  CONTROL_FILE_TTL_MS,
  type ControlEntry,
  type ControlFile,
  decodeControlEntry,
  MAX_CONTROL_FILES,
} from '../wire/control.ts';
import { CONTROL_KEY, controlFileKey } from '../wire/names.ts';
import { openText } from '../wire/sealed.ts';

/** What Redis takes in one key. */
const MAX_FILE_BYTES = 512 * 1024 * 1024;
const RENEW_MS = 3_600_000;
const KEYS_AT_ONCE = 1000;

/**
 * The files that loads bring along lie in Redis as long as the load is what was asked last of its model, so that workers
 * that join later find them. Workers and producers renew them; where there are neither, they expire.
 */
export class ControlFileLease {
  readonly #redis: Redis;
  readonly #logger: Logger;
  readonly #renewMs: number;
  #renewedMs = -Infinity;

  constructor(redis: Redis, logger: Logger, renewMs = RENEW_MS) {
    this.#redis = redis;
    this.#logger = logger;
    this.#renewMs = renewMs;
  }

  /** Called again and again; does what is due. */
  async tend(): Promise<void> {
    const nowMs = performance.now();
    if (nowMs - this.#renewedMs < this.#renewMs) return;
    this.#renewedMs = nowMs;
    for (const text of await this.#redis.hvals(CONTROL_KEY)) {
      for (const keys of this.#keysOf(text)) {
        const pipeline = this.#redis.pipeline();
        for (const key of keys) pipeline.pexpire(key, CONTROL_FILE_TTL_MS);
        await pipeline.exec();
      }
    }
  }

  #keysOf(text: string): string[][] {
    try {
      return keysOf(decodeControlEntry(openText(undefined, 'control', '', text)));
    } catch (error) {
      this.#logger.debug({ error: String(error) }, 'control entry skipped');
      return [];
    }
  }
}

/** @throws InferError INVALID_ARGUMENT for more or larger files than can be kept. */
export function describeControlFiles(model: string, files: ReadonlyMap<string, Uint8Array>): ControlFile[] {
  if (files.size > MAX_CONTROL_FILES) {
    const text = `the load of '${model}' brings ${files.size} files along; a pool takes at most ${MAX_CONTROL_FILES}`;
    throw new InferError('INVALID_ARGUMENT', text);
  }
  return Array.from(files, ([path, content]) => {
    const { byteLength } = content;
    if (byteLength <= MAX_FILE_BYTES) return { path, sha256: sha256Hex(content), byteLength };
    const text = `the load of '${model}' brings a file of ${byteLength} bytes along; a pool takes at most ${MAX_FILE_BYTES}`;
    throw new InferError('INVALID_ARGUMENT', text);
  });
}

/** Writes the files of a load that is about to be asked for. */
export async function storeControlFiles(redis: Redis, load: string, files: Iterable<Uint8Array>): Promise<void> {
  for (const content of files) {
    const data = Buffer.from(content.buffer, content.byteOffset, content.byteLength);
    await redis.set(controlFileKey(load, sha256Hex(content)), data, 'PX', CONTROL_FILE_TTL_MS);
  }
}

/** Nobody is to load what the entry asks for any more. */
export async function removeControlFiles(redis: Redis, entry: ControlEntry): Promise<void> {
  for (const keys of keysOf(entry)) await redis.unlink(...keys);
}

/** In lists of a bounded length. */
function keysOf(entry: ControlEntry): string[][] {
  if (entry.action !== 'load') return [];
  const keys = [...new Set(entry.files.map((file) => controlFileKey(entry.id, file.sha256)))];
  const lists: string[][] = [];
  for (let from = 0; from < keys.length; from += KEYS_AT_ONCE) lists.push(keys.slice(from, from + KEYS_AT_ONCE));
  return lists;
}
