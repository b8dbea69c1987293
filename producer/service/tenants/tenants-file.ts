import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { InferError } from '../../../shared/errors.ts';
import type { Logger } from '../../../shared/runtime/logger.ts';
import { parseTenants } from './parse-tenants.ts';
import { Tenants } from './tenants.ts';

/** How often the file is looked at, in ms. Kubernetes replaces mounted files by links, which watchers miss. */
const LOOK_MS = 1000;
const UNREADABLE = '--api-keys-file: the file cannot be read';
const MAX_FILE_BYTES = 16 * 1024 * 1024;

/** The tenants of a file, which is read again when it changes. */
export class TenantsFile {
  readonly tenants: Tenants;
  readonly #path: string;
  #text: string;
  #timer: NodeJS.Timeout | undefined;
  #reading = false;
  #lastReason = '';

  private constructor(path: string, text: string, tenants: Tenants) {
    this.#path = path;
    this.#text = text;
    this.tenants = tenants;
  }

  /** @throws InferError INVALID_ARGUMENT with one clear line */
  static open(path: string): TenantsFile {
    let text: string;
    try {
      text = readFileSync(path, 'utf8');
    } catch (cause) {
      throw new InferError('INVALID_ARGUMENT', UNREADABLE, { cause });
    }
    return new TenantsFile(path, text, new Tenants(parse(text)));
  }

  /** From now on changes are seen. */
  start(logger: Logger): void {
    this.#timer ??= setInterval(() => void this.look(logger), LOOK_MS).unref();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  /** Takes over what the file says now. With a file that is wrong or gone those before stay, and it is said aloud. */
  async look(logger: Logger): Promise<void> {
    if (this.#reading) return;
    this.#reading = true;
    try {
      const text = await readFile(this.#path, 'utf8');
      if (text === this.#text) {
        this.#lastReason = ''; // whatever was wrong is over, and is said again when it comes back
        return;
      }
      const tenants = parse(text);
      this.#text = text;
      this.#lastReason = '';
      this.tenants.replace(tenants);
      logger.info({ tenants: tenants.length }, 'api keys read again');
    } catch (error) {
      const reason = error instanceof InferError ? error.message : UNREADABLE;
      if (reason === this.#lastReason) return; // said once
      this.#lastReason = reason;
      logger.error({ reason }, 'api keys not read, those before stay in force');
    } finally {
      this.#reading = false;
    }
  }
}

function parse(text: string) {
  try {
    if (text.length > MAX_FILE_BYTES)
      throw new InferError('INVALID_ARGUMENT', `it has more than ${MAX_FILE_BYTES} bytes`);
    return parseTenants(text);
  } catch (error) {
    throw new InferError('INVALID_ARGUMENT', `--api-keys-file: ${InferError.from(error).message}`, { cause: error });
  }
}
