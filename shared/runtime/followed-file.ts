import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { InferError } from '../errors.ts';
import type { Logger } from './logger.ts';

/** How often the file is looked at, in ms. Kubernetes replaces mounted files by links, which watchers miss. */
const LOOK_MS = 1000;
const MAX_FILE_BYTES = 16 * 1024 * 1024;

export interface FollowedFileOptions<T> {
  readonly path: string;
  /** Begins every message of an error. */
  readonly flag: string;
  /** What it holds, for the log. */
  readonly what: string;
  /** @throws InferError with what is wrong, without the flag */
  readonly parse: (text: string) => T;
}

/** A file of settings that is read again when it changes. */
export class FollowedFile<T> {
  readonly #options: FollowedFileOptions<T>;
  readonly #take: (value: T) => void;
  #text: string;
  #timer: NodeJS.Timeout | undefined;
  #reading = false;
  #lastReason = '';

  /**
   * Reads it for the first time.
   * @param take gets what the file says, now and whenever it says something else
   * @throws InferError INVALID_ARGUMENT with one clear line
   */
  constructor(options: FollowedFileOptions<T>, take: (value: T) => void) {
    this.#options = options;
    this.#take = take;
    try {
      this.#text = readFileSync(options.path, 'utf8');
    } catch (cause) {
      throw new InferError('INVALID_ARGUMENT', this.#unreadable, { cause });
    }
    take(this.#parse(this.#text));
  }

  /** From now on changes are seen. */
  start(logger: Logger): void {
    this.#timer ??= setInterval(() => void this.look(logger), LOOK_MS).unref();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  /** Takes over what the file says now. With a file that is wrong or gone what it said before stays, and it is said aloud. */
  async look(logger: Logger): Promise<void> {
    if (this.#reading) return;
    this.#reading = true;
    const { path, what } = this.#options;
    try {
      const text = await readFile(path, 'utf8');
      if (text === this.#text) {
        this.#lastReason = ''; // whatever was wrong is over, and is said again when it comes back
        return;
      }
      const value = this.#parse(text);
      this.#text = text;
      this.#lastReason = '';
      this.#take(value);
      logger.info({}, `${what} read again`);
    } catch (error) {
      const reason = error instanceof InferError ? error.message : this.#unreadable;
      if (reason === this.#lastReason) return; // said once
      this.#lastReason = reason;
      logger.error({ reason }, `${what} not read, those before stay in force`);
    } finally {
      this.#reading = false;
    }
  }

  get #unreadable(): string {
    return `${this.#options.flag}: the file cannot be read`;
  }

  #parse(text: string): T {
    const { flag, parse } = this.#options;
    try {
      if (text.length > MAX_FILE_BYTES)
        throw new InferError('INVALID_ARGUMENT', `it has more than ${MAX_FILE_BYTES} bytes`);
      return parse(text);
    } catch (error) {
      throw new InferError('INVALID_ARGUMENT', `${flag}: ${InferError.from(error).message}`, { cause: error });
    }
  }
}
