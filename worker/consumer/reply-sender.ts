import type { Redis } from 'ioredis';
import { InferError } from '../../shared/errors.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { replyKey } from '../../shared/wire/names.ts';
import type { QueueKeys } from '../../shared/wire/queue-keys.ts';
import { encodeReplies, type Reply, replyByteLength, replyFields } from '../../shared/wire/reply.ts';

/** Answers for one producer that leave together. */
interface Outgoing {
  readonly replies: Reply[];
  byteLength: number;
  readonly sent: Promise<void>;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

export interface ReplySenderOptions {
  /** A connection of its own, so that answers do not queue behind megabytes of tensors. */
  readonly redis: Redis;
  /** Redis refuses the answer for want of memory; whoever can free some does it now. */
  readonly onStorageFull: () => void;
  /** Signs the answers; undefined where they are not signed. */
  readonly keys?: QueueKeys | undefined;
  readonly logger: Logger;
}

const SPLIT_ABOVE_BYTES = 8 * 1024 * 1024;
/** Bounds the stream of a producer that stopped reading. */
const MAX_ENTRIES = 20_000;
/** The stream of a dead producer goes this long after its last answer, or up to RENEW_TTL_MS earlier. */
const STREAM_TTL_MS = 60_000;
/** A stream's time to live is renewed so often, in ms; with every answer it would double the commands. */
const RENEW_TTL_MS = 5000;
/** Producers whose renewals are remembered; beyond that all are renewed at their next answer. */
const MAX_RENEWALS = 10_000;
const STORAGE_RETRY_MS = 100;
const STORAGE_RETRIES = 300;

/** Publishes answers: one entry on the producer's stream for all that settle in the same turn of the loop. */
export class ReplySender {
  readonly #options: ReplySenderOptions;
  /** When a stream's time to live was renewed, on the clock, by its key. */
  readonly #renewedMs = new Map<string, number>();
  /** Of this turn, by producer. */
  #outgoing: Map<string, Outgoing> | undefined;

  constructor(options: ReplySenderOptions) {
    this.#options = options;
  }

  /** Resolves when Redis has acknowledged the answer. The promise is shared by all that leave together. */
  send(producer: string, reply: Reply): Promise<void> {
    if (!this.#outgoing) {
      this.#outgoing = new Map();
      setImmediate(this.#flushAll);
    }
    let outgoing = this.#outgoing.get(producer);
    if (!outgoing) {
      outgoing = createOutgoing();
      this.#outgoing.set(producer, outgoing);
    }
    outgoing.replies.push(reply);
    outgoing.byteLength += replyByteLength(reply);
    if (outgoing.byteLength > SPLIT_ABOVE_BYTES) {
      this.#outgoing.delete(producer); // it leaves before its turn
      this.#flush(producer, outgoing);
    }
    return outgoing.sent;
  }

  /** Redis has begun anew, and what lies there now may have no time to live yet. */
  renewAll(): void {
    this.#renewedMs.clear();
  }

  readonly #flushAll = (): void => {
    const all = this.#outgoing;
    this.#outgoing = undefined;
    for (const [producer, outgoing] of all ?? []) this.#flush(producer, outgoing);
  };

  #flush(producer: string, outgoing: Outgoing): void {
    const fields = replyFields(this.#options.keys, producer, encode(outgoing.replies));
    this.#publish(replyKey(producer), fields).then(outgoing.resolve, outgoing.reject);
  }

  async #publish(key: string, fields: readonly (string | Buffer)[]): Promise<void> {
    const { redis, onStorageFull, logger } = this.#options;
    for (let attempt = 0; ; attempt += 1) {
      try {
        await redis.xadd(key, 'MAXLEN', '~', MAX_ENTRIES, '*', ...fields);
        this.#renew(key);
        return;
      } catch (error) {
        if (!(error instanceof Error && error.message.startsWith('OOM')) || attempt >= STORAGE_RETRIES) throw error;
      }
      if (attempt === 0) logger.warn({}, 'redis is full, answer held back');
      onStorageFull();
      await new Promise((resolve) => setTimeout(resolve, STORAGE_RETRY_MS));
    }
  }

  #renew(key: string): void {
    const nowMs = performance.now();
    if (nowMs - (this.#renewedMs.get(key) ?? -Infinity) < RENEW_TTL_MS) return;
    if (this.#renewedMs.size >= MAX_RENEWALS) this.#renewedMs.clear();
    this.#renewedMs.set(key, nowMs);
    const { redis, logger } = this.#options;
    redis.pexpire(key, STREAM_TTL_MS).catch((error: unknown) => {
      this.#renewedMs.delete(key);
      logger.debug({ error: String(error) }, 'reply stream not renewed');
    });
  }
}

function createOutgoing(): Outgoing {
  const { promise: sent, resolve, reject } = withResolvers();
  // The senders wait on it; without any, a failure is in the log of the job.
  sent.catch(() => undefined);
  return { replies: [], byteLength: 0, sent, resolve, reject };
}

/** Promise.withResolvers, which Node 20 lacks. */
function withResolvers() {
  let resolve: () => void = () => undefined;
  let reject: (error: unknown) => void = () => undefined;
  const promise = new Promise<void>((onResolve, onReject) => {
    resolve = onResolve;
    reject = onReject;
  });
  return { promise, resolve, reject };
}

/** An answer that does not fit becomes an error, alone: its companions must not suffer. */
function encode(replies: readonly Reply[]): Buffer {
  try {
    return encodeReplies(replies);
  } catch (error) {
    const failure = InferError.from(error, 'the answer could not be encoded');
    const tooBig = (reply: Reply): boolean => replies.length === 1 || replyByteLength(reply) > SPLIT_ABOVE_BYTES;
    return encodeReplies(
      replies.map((reply) => (tooBig(reply) ? { sequence: reply.sequence, error: failure } : reply)),
    );
  }
}
