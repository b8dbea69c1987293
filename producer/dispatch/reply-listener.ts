import type { Redis } from 'ioredis';
import type { Logger } from '../../shared/runtime/logger.ts';
import { dropRedis } from '../../shared/runtime/redis.ts';
import type { RedisLink } from '../../shared/runtime/redis-link.ts';
import { within } from '../../shared/runtime/within.ts';
import { replyKey } from '../../shared/wire/names.ts';
import type { QueueKeys } from '../../shared/wire/queue-keys.ts';
import { checkReplies, decodeReplies, type Reply } from '../../shared/wire/reply.ts';

export interface ReplyListenerOptions {
  /** A connection of its own: a blocking read holds up everything behind it. */
  readonly reader: Redis;
  /** Any other connection, for trimming. */
  readonly commands: Redis;
  readonly link: RedisLink;
  readonly producer: string;
  /** Checks the signatures of answers; undefined where they have none. */
  readonly keys: QueueKeys | undefined;
  readonly onReply: (reply: Reply) => void;
  readonly logger: Logger;
}

export const BLOCK_MS = 2000;
/** Entries a read; one holds up to 8 MiB. */
const READ_COUNT = 16;
const TRIM_INTERVAL_MS = 1000;
const TRIM_AFTER_BYTES = 16 * 1024 * 1024;
const RETRY_MS = 100;
/** A connection on which nothing comes any more is cut after 2 s. */
const CLOSE_MS = 3000;
const FROM_START = '0-0';

/** Reads the answers for this process from its stream and removes what it has read. */
export class ReplyListener {
  readonly #options: ReplyListenerOptions;
  readonly #key: string;
  #lastId = FROM_START;
  #trimmedId = FROM_START;
  #untrimmedBytes = 0;
  #trimTimer: NodeJS.Timeout | undefined;
  #loop: Promise<void> | undefined;
  #closed = false;

  constructor(options: ReplyListenerOptions) {
    this.#options = options;
    this.#key = replyKey(options.producer);
  }

  start(): void {
    this.#trimTimer = setInterval(() => this.#trim(), TRIM_INTERVAL_MS);
    this.#trimTimer.unref();
    // Entry ids hold the server's time: on another server, or after a step of its clock, they may begin lower again.
    this.#options.link.onRestart(() => {
      this.#lastId = FROM_START;
      this.#trimmedId = FROM_START;
    });
    this.#loop = this.#run();
  }

  /** Stops reading. The reader connection is ended by this, as a blocking read can only be left that way. */
  async close(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#trimTimer);
    dropRedis(this.#options.reader);
    await within(this.#loop ?? Promise.resolve(), CLOSE_MS);
  }

  async #run(): Promise<void> {
    const { reader, logger } = this.#options;
    while (!this.#isClosed()) {
      try {
        const answer = await reader.xreadBuffer(
          'COUNT',
          READ_COUNT,
          'BLOCK',
          BLOCK_MS,
          'STREAMS',
          this.#key,
          this.#lastId,
        );
        for (const [, entries] of answer ?? []) for (const [id, fields] of entries) this.#take(id.toString(), fields);
      } catch (error) {
        if (this.#isClosed()) return;
        logger.warn({ error: String(error) }, 'reply stream read failed');
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
    }
  }

  /** A method, as the answer may change while the loop waits. */
  #isClosed(): boolean {
    return this.#closed;
  }

  #take(id: string, fields: readonly Buffer[]): void {
    this.#lastId = id;
    const frame = fields[1];
    if (!frame) return;
    this.#untrimmedBytes += frame.byteLength;
    const { keys, producer } = this.#options;
    let replies: Reply[];
    try {
      if (keys) checkReplies(keys, producer, fields);
      replies = decodeReplies(frame);
    } catch (error) {
      // Whoever waits for what was in it gets the deadline; the others must not suffer.
      this.#options.logger.warn({ error: String(error) }, 'reply frame dropped');
      return;
    }
    for (const reply of replies) this.#options.onReply(reply);
    if (this.#untrimmedBytes > TRIM_AFTER_BYTES) this.#trim();
  }

  #trim(): void {
    const { commands, link, logger } = this.#options;
    if (this.#lastId === this.#trimmedId || link.state.kind !== 'up') return;
    this.#trimmedId = this.#lastId;
    this.#untrimmedBytes = 0;
    commands.xtrim(this.#key, 'MINID', after(this.#lastId)).catch((error: unknown) => {
      logger.debug({ error: String(error) }, 'reply stream trim failed');
    });
  }
}

/** The smallest entry id above this one. */
function after(id: string): string {
  const [time = '0', counter = '0'] = id.split('-');
  return `${time}-${BigInt(counter) + 1n}`;
}
