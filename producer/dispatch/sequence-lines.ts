import { InferError } from '../../shared/errors.ts';
import { type SequencePart, sequenceLost } from '../../shared/infer/sequence.ts';
import type { ReadyModel } from '../../shared/model/ready-model.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import type { PendingRequest } from './pending-requests.ts';
import type { Holder, SequenceHolders } from './sequence-holders.ts';

export interface SequenceLinesParts {
  readonly holders: Pick<SequenceHolders, 'find' | 'extend' | 'forget'>;
  /** What answers a request now, `asked` being the version that it names. @throws InferError for nothing */
  readonly resolve: (model: string, asked: string) => Resolved;
  /** Whether a worker is alive, even if it takes nothing new. */
  readonly isAlive: (worker: string) => boolean;
  readonly clock: Clock;
  /** Puts a request on its way to its `worker`. */
  readonly send: (request: PendingRequest, maxBatchSize: number) => void;
  readonly fail: (request: PendingRequest, error: InferError) => void;
  /** Nothing is on its way to the worker any more, and nothing will be. */
  readonly onWorkerGone: (worker: string) => void;
}

type Resolved = Pick<ReadyModel, 'version' | 'maxBatchSize'>;

/** A request on its way through its line. */
interface Step {
  readonly line: Line;
  readonly request: PendingRequest;
  readonly part: SequencePart;
  /** The version as its caller asks for it. */
  readonly asked: string;
  /** The one that answers and its model's maximum, when it is the request's turn. */
  version: string;
  maxBatchSize: number;
  /** Once it was found. */
  holder: Holder | undefined;
  /** Workers that had no room for it, and what the last of them said. */
  readonly full: Set<string>;
  refusal: InferError | undefined;
  cancelTimer: (() => void) | undefined;
}

/**
 * The requests of one sequence at this producer: at most one is on its way. They are together that ask for the version by
 * the same name: which one answers may have changed by the time when it is the next one's turn.
 */
interface Line {
  readonly key: string;
  readonly model: string;
  readonly idleMs: number;
  readonly waiting: Step[];
  current: Step | undefined;
}

/** The worker's clock and the way to it; a holder may be remembered longer than it holds, never shorter. */
const SLACK_MS = 5000;
/** For requests without a deadline. */
const MAX_WAIT_MS = 600_000;
/** An answer may be read a moment later than the news that its worker has left. */
const LOST_AFTER_MS = 1000;
/** How long a request that nobody waits for may hold up its line, until the worker has said that it is over. */
const ABANDONED_MS = 30_000;
const MAX_RESENDS = 5;
/** How many workers may refuse a START for want of room. */
const MAX_FULL = 8;
const FIRST_RESEND_MS = 50;

/**
 * Keeps the requests of each sequence in order on their way to the worker that holds it: the next one leaves when the
 * worker has answered the one before. Where no answer can come any more, because the worker is gone, the sequence is lost.
 */
export class SequenceLines {
  readonly #parts: SequenceLinesParts;
  readonly #lines = new Map<string, Line>();
  /** By the request's number at this producer. */
  readonly #steps = new Map<number, Step>();
  /** Workers that something was sent to, and since when they are gone. */
  readonly #workers = new Map<string, number | undefined>();

  constructor(parts: SequenceLinesParts) {
    this.#parts = parts;
  }

  /** `idleMs` is how long the model lets a sequence be silent. */
  push(request: PendingRequest, part: SequencePart, idleMs: number): void {
    const { model, version: asked } = request.request;
    const key = `${model}\n${asked}\n${part.key}`;
    let line = this.#lines.get(key);
    if (!line) this.#lines.set(key, (line = { key, model, idleMs, waiting: [], current: undefined }));
    const step: Step = {
      line,
      request,
      part,
      asked,
      version: '',
      maxBatchSize: 0,
      holder: undefined,
      full: new Set(),
      refusal: undefined,
      cancelTimer: undefined,
    };
    this.#steps.set(request.sequence, step);
    line.waiting.push(step);
    if (!line.current) this.#next(line);
  }

  /** Whether the request is on its way here. */
  has(sequence: number): boolean {
    return this.#steps.has(sequence);
  }

  /**
   * The worker is done with a request, or Redis did not take it. A sequence is forgotten when its END was answered with a
   * result: after an error only the worker knows whether it has ended, and it is asked by the next request.
   */
  over(sequence: number, succeeded = false): void {
    const step = this.#steps.get(sequence);
    if (!step) return;
    const { holder, part, version, line } = step;
    if (holder) {
      const { holders } = this.#parts;
      const name = { model: line.model, version, part };
      // Else it is silent from now on, and not from when the request was sent. Before the next request is: that one asks
      // for longer.
      const told = part.end && succeeded ? holders.forget(name, holder) : holders.extend(name, line.idleMs + SLACK_MS);
      told.catch(() => undefined); // it expires
    }
    this.#end(step);
  }

  /** Nobody waits for the request any more. While the worker may still run it, it keeps its place. */
  settled({ sequence, bundle }: PendingRequest): void {
    const step = this.#steps.get(sequence);
    if (!step) return;
    const { line } = step;
    if (line.current !== step) {
      line.waiting.splice(line.waiting.indexOf(step), 1);
      this.#steps.delete(sequence);
    } else if (step.request.worker !== '' && bundle === '') {
      this.#end(step); // it never left
    } else if (step.request.worker !== '') {
      step.cancelTimer ??= this.#parts.clock.setTimer(
        () => this.#lose(step, 'its worker did not answer'),
        ABANDONED_MS,
      );
    }
  }

  /**
   * The worker that got a request does not serve the model any more. Returns the error to answer with, or undefined when
   * the sequence may yet begin elsewhere.
   */
  refused(sequence: number, error: InferError): InferError | undefined {
    const step = this.#steps.get(sequence);
    if (!step) return error;
    const { request, part, line } = step;
    if (!part.start) return sequenceLost(line.model, part, 'its worker does not serve the model any more');
    if (request.settled || request.resends >= MAX_RESENDS) return error;
    const waitMs = FIRST_RESEND_MS * 2 ** request.resends;
    request.resends += 1;
    this.#takeBack(request);
    this.#parts.clock.setTimer(() => this.#begin(step, error), waitMs);
    return undefined;
  }

  /**
   * The worker that got a request had no room for it. Returns the error to answer with, or undefined when the sequence may
   * yet begin at another.
   */
  crowded(sequence: number, error: InferError): InferError | undefined {
    const step = this.#steps.get(sequence);
    if (!step?.part.start || step.request.settled || step.full.size >= MAX_FULL) return error;
    step.full.add(step.request.worker);
    this.#takeBack(step.request);
    this.#begin(step, error);
    return undefined;
  }

  /** From now on `onWorkerGone` tells of this worker too. */
  watch(worker: string): void {
    if (!this.#workers.has(worker)) this.#workers.set(worker, undefined);
  }

  /** The directory was read: what is on its way to a worker that is not there any more gets no answer. */
  follow(): void {
    const nowMs = this.#parts.clock.now();
    for (const [worker, goneSinceMs] of this.#workers) {
      if (this.#parts.isAlive(worker)) this.#workers.set(worker, undefined);
      else if (goneSinceMs === undefined) this.#workers.set(worker, nowMs);
      else if (nowMs - goneSinceMs >= LOST_AFTER_MS) this.#forget(worker);
    }
  }

  close(): void {
    for (const step of this.#steps.values()) step.cancelTimer?.();
  }

  #forget(worker: string): void {
    this.#workers.delete(worker);
    for (const step of [...this.#steps.values()])
      if (step.request.worker === worker) this.#lose(step, 'its worker is gone');
    this.#parts.onWorkerGone(worker);
  }

  #lose(step: Step, why: string): void {
    const { request, line, part } = step;
    this.#end(step);
    if (!request.settled) this.#parts.fail(request, sequenceLost(line.model, part, why));
  }

  #takeBack(request: PendingRequest): void {
    request.bundle = '';
    request.queued = false;
    request.worker = '';
  }

  /** A START that was refused, at another worker and perhaps at another version. */
  #begin(step: Step, refusal: InferError): void {
    step.refusal = refusal;
    try {
      this.#resolve(step);
    } catch (error) {
      this.#refuse(step, error);
      return;
    }
    void this.#dispatch(step);
  }

  #resolve(step: Step): void {
    const { version, maxBatchSize } = this.#parts.resolve(step.line.model, step.asked);
    step.version = version;
    step.maxBatchSize = maxBatchSize;
  }

  #refuse(step: Step, error: unknown): void {
    const { request } = step;
    this.#end(step);
    if (!request.settled) this.#parts.fail(request, InferError.from(error));
  }

  #next(line: Line): void {
    for (let step = line.waiting.shift(); step; step = line.waiting.shift()) {
      line.current = step;
      try {
        this.#resolve(step);
      } catch (error) {
        line.current = undefined; // so that its end does not call this once more, and so on for each that waits
        this.#refuse(step, error);
        continue;
      }
      void this.#dispatch(step);
      return;
    }
    line.current = undefined;
    this.#lines.delete(line.key);
  }

  async #dispatch(step: Step): Promise<void> {
    const { request, part, line, version, asked, full } = step;
    let holder: Holder;
    try {
      const ttlMs = Math.max(line.idleMs, this.#waitMs(request)) + SLACK_MS;
      holder = await this.#parts.holders.find({ model: line.model, version, asked, part, ttlMs, full });
    } catch (error) {
      const noRoom = error instanceof InferError && error.code === 'RESOURCE_EXHAUSTED';
      this.#refuse(step, noRoom ? (step.refusal ?? error) : error);
      return;
    }
    if (request.settled) {
      this.#end(step);
      return;
    }
    step.holder = holder;
    request.worker = holder.worker;
    request.request = { ...request.request, version };
    this.watch(holder.worker);
    this.#parts.send(request, step.maxBatchSize);
  }

  #waitMs({ call }: PendingRequest): number {
    return Math.min(Math.max(0, call.deadlineMs - this.#parts.clock.now()), MAX_WAIT_MS);
  }

  #end(step: Step): void {
    step.cancelTimer?.();
    this.#steps.delete(step.request.sequence);
    if (step.line.current === step) this.#next(step.line);
  }
}
