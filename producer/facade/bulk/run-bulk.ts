import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { InferError } from '../../../shared/errors.ts';
import { Call } from '../../../shared/infer/call.ts';
import type { InferResponse } from '../../../shared/infer/response.ts';
import { joinedBody } from '../../http/send-body.ts';
import { HttpError, toPublicError } from '../../http/http-error.ts';
import type { FacadeContext } from '../facade-context.ts';
import { type DecodedRequest, decodeInferRequest, encodeInferResponse } from '../triton-http/codec.ts';
import { HeadCache } from '../triton-http/head-cache.ts';
import type { BulkOptions } from './bulk-options.ts';
import type { Line } from './line-reader.ts';

export interface BulkWork {
  readonly model: string;
  /** '' for the version policy. */
  readonly version: string;
  readonly tenant: string;
  /** Of the HTTP request; its lines are told apart by their numbers. */
  readonly requestId: string;
  readonly options: BulkOptions;
  readonly maxLineBytes: number;
  /** How long the client may leave what it is sent unread. */
  readonly sendTimeoutMs: number;
}

const PROGRESS_MS = 1000;
/** Bytes of lines in hand, whatever their number: more are not read. One line may be longer. */
const MAX_BYTES_IN_HAND = 32 * 1024 * 1024;
const FIRST_RETRY_MS = 50;
const MAX_RETRY_MS = 2000;

/** Runs a model on each line of a body and writes a line for each. */
export class BulkRun {
  readonly #context: FacadeContext;
  readonly #work: BulkWork;
  readonly #out: ServerResponse;
  readonly #heads = new HeadCache();
  readonly #calls = new Set<Call>();
  /** Answers that wait for those before them, where the order is that of the input. */
  readonly #held = new Map<number, string>();
  /** Lines in hand in the order of the input. */
  readonly #order: number[] = [];
  #bytesInHand = 0;
  #done = 0;
  #failed = 0;
  #stopped: string | undefined;
  /** Resolves when no more lines are to be taken. */
  readonly #stopping: Promise<void>;
  #noteStop: () => void = () => undefined;
  #changed: () => void = () => undefined;

  constructor(context: FacadeContext, work: BulkWork, out: ServerResponse) {
    this.#context = context;
    this.#work = work;
    this.#out = out;
    this.#stopping = new Promise((resolve) => {
      this.#noteStop = resolve;
    });
  }

  /** Takes no more lines; those in hand are answered. */
  stop(reason: string): void {
    this.#stopped ??= reason;
    this.#noteStop();
    this.#changed();
  }

  /** Nobody reads the answers any more. */
  cancel(): void {
    this.stop('the client closed the connection');
    const error = new InferError('CANCELLED', 'the client closed the connection');
    for (const call of this.#calls) call.cancel(error);
  }

  /** Resolves when the last line is written, or the client is gone. Rejects when the body breaks off. */
  async run(lines: AsyncIterator<Line>): Promise<void> {
    const { progress } = this.#work.options;
    const timer = progress ? setInterval(() => this.#tellProgress(), PROGRESS_MS) : undefined;
    try {
      for (let line = await this.#next(lines); line; line = await this.#next(lines)) {
        await this.#room(line.bytes?.length ?? 0);
        this.#start(line);
      }
      while (this.#order.length > 0) await this.#change();
      await this.#drained();
    } catch (error) {
      this.cancel();
      throw error;
    } finally {
      clearInterval(timer);
    }
    const summary = { done: this.#done, failed: this.#failed, complete: this.#stopped === undefined };
    this.#write(JSON.stringify({ summary: { ...summary, ...(this.#stopped && { reason: this.#stopped }) } }));
  }

  async #next(lines: AsyncIterator<Line>): Promise<Line | undefined> {
    const next = await Promise.race([lines.next(), this.#stopping]);
    return next && this.#stopped === undefined && next.done !== true ? next.value : undefined;
  }

  /** Resolves when another line may be taken, and the client has read what it was sent. */
  async #room(bytes: number): Promise<void> {
    const { concurrency } = this.#work.options;
    while (
      this.#order.length >= concurrency ||
      (this.#order.length > 0 && this.#bytesInHand + bytes > MAX_BYTES_IN_HAND)
    ) {
      await this.#change();
    }
    await this.#drained();
  }

  #change(): Promise<void> {
    return new Promise((resolve) => {
      this.#changed = resolve;
    });
  }

  #drained(): Promise<void> {
    const out = this.#out;
    if (!out.writableNeedDrain || out.destroyed) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(() => out.destroy(), this.#work.sendTimeoutMs);
      const end = () => {
        clearTimeout(timer);
        out.off('drain', end);
        out.off('close', end);
        resolve();
      };
      out.once('drain', end);
      out.once('close', end);
    });
  }

  #start({ index, bytes }: Line): void {
    const byteLength = bytes?.length ?? 0;
    this.#bytesInHand += byteLength;
    this.#context.admission.hold(byteLength);
    this.#order.push(index);
    void this.#answer(index, bytes).then((text) => {
      this.#bytesInHand -= byteLength;
      this.#context.admission.release(byteLength);
      this.#held.set(index, text);
      this.#release(index);
      this.#changed();
    });
  }

  /** Writes what is due: the line itself, or all that waited for it. */
  #release(index: number): void {
    if (!this.#work.options.inOrder) {
      this.#order.splice(this.#order.indexOf(index), 1);
      this.#writeHeld(index);
      return;
    }
    for (let first = this.#order[0]; first !== undefined && this.#held.has(first); first = this.#order[0]) {
      this.#order.shift();
      this.#writeHeld(first);
    }
  }

  #writeHeld(index: number): void {
    const text = this.#held.get(index);
    this.#held.delete(index);
    if (text !== undefined) this.#write(text);
  }

  #write(text: string): void {
    if (!this.#out.destroyed) this.#out.write(`${text}\n`);
  }

  #tellProgress(): void {
    if (this.#out.writableNeedDrain) return; // it is told when the client reads
    this.#write(JSON.stringify({ progress: { done: this.#done, failed: this.#failed } }));
  }

  /** The line that answers a line. Never rejects. */
  async #answer(index: number, bytes: Buffer | undefined): Promise<string> {
    try {
      const text = await this.#infer(index, bytes);
      this.#done += 1;
      return text;
    } catch (error) {
      this.#done += 1;
      this.#failed += 1;
      const { status, message } = toPublicError(error);
      const code = error instanceof InferError ? error.code : status < 500 ? 'INVALID_ARGUMENT' : 'INTERNAL';
      if (status === 500) {
        this.#context.logger.error(
          { requestId: this.#work.requestId, line: index, error: String(error) },
          'line failed',
        );
      }
      return JSON.stringify({ index, error: { code, status, message } });
    }
  }

  async #infer(index: number, bytes: Buffer | undefined): Promise<string> {
    const { model: name, version, maxLineBytes } = this.#work;
    if (!bytes) throw new HttpError(413, `the line is longer than the limit of ${maxLineBytes} bytes`);
    const { catalog, sharedMemory } = this.#context;
    const model = catalog.resolve(name, version);
    const decoded = decodeInferRequest(bytes, undefined, model, version, this.#heads, sharedMemory);
    if (decoded.regions) {
      decoded.regions.release();
      throw new InferError('INVALID_ARGUMENT', 'outputs of a line cannot go to shared memory, expected none that do');
    }
    const response = await this.#insist(index, decoded);
    const wishes = decoded.wishes.map((wish) => ({ ...wish, binary: false }));
    const wish = { ...decoded, wishes, binaryByDefault: false };
    const { body } = encodeInferResponse(response, wish, model);
    return `{"index":${index},"response":${joinedBody(body).toString()}}`;
  }

  /** A server that has too much at hand, or a tenant that has sent enough for now, is asked again until the deadline. */
  async #insist(index: number, { request, priority }: DecodedRequest): Promise<InferResponse> {
    const { clock, requestTimeoutMs, infer } = this.#context;
    const arrivalMs = clock.now();
    const call = new Call(`${this.#work.requestId}.${index}`, arrivalMs, arrivalMs + requestTimeoutMs, priority);
    call.tenant = this.#work.tenant;
    this.#calls.add(call);
    try {
      for (let retryMs = FIRST_RETRY_MS; ; retryMs = Math.min(retryMs * 2, MAX_RETRY_MS)) {
        try {
          return await infer(request, call);
        } catch (error) {
          if (!(error instanceof InferError) || error.code !== 'RESOURCE_EXHAUSTED' || call.error) throw error;
          const waitMs = Math.max(retryMs, Math.min(error.retryAfterMs ?? 0, MAX_RETRY_MS));
          if (clock.now() + waitMs >= call.deadlineMs || this.#out.destroyed) throw error;
          await sleep(waitMs);
        }
      }
    } finally {
      this.#calls.delete(call);
    }
  }
}
