import type { InferError } from '../../../shared/errors.ts';
import type { InferResponse } from '../../../shared/infer/response.ts';
import { ChurnMap } from '../../../shared/runtime/churn.ts';
import type { Clock } from '../../../shared/runtime/clock.ts';
import type { PendingRequest } from '../schedule/pending-request.ts';

/** Where the answers of a run go. */
export interface Answers {
  /** Requests between entry and answer. */
  readonly count: number;
  succeed(item: PendingRequest, response: InferResponse, nowMs: number): void;
  fail(item: PendingRequest, error: InferError): void;
}

/**
 * How many requests may have begun since the oldest unanswered one did. Answers wait in memory for those before them,
 * so a run that takes long must not let the other instances pile up results without end.
 */
export const MAX_BEGUN = 1024;

type Outcome = { readonly response: InferResponse } | { readonly error: InferError } | undefined;

/** Releases answers in the order in which their requests began to run: `preserve_ordering`. */
export class AnswerOrder implements Answers {
  readonly #open: Answers;
  readonly #clock: Clock;
  readonly #onRoom: () => void;
  /** Of requests that have begun, in that order; undefined until the outcome is known. */
  readonly #outcomes = new ChurnMap<PendingRequest, Outcome>();

  /** `open` is where answers go in the end; `onRoom` is called when `full` is over. */
  constructor(open: Answers, clock: Clock, onRoom: () => void) {
    this.#open = open;
    this.#clock = clock;
    this.#onRoom = onRoom;
  }

  get count(): number {
    return this.#open.count;
  }

  /** Nothing new is to begin. */
  get full(): boolean {
    return this.#outcomes.size >= MAX_BEGUN;
  }

  /** The requests begin to run, perhaps for a second time; then they keep their place. */
  begin(items: readonly PendingRequest[]): void {
    for (const item of items) if (!this.#outcomes.has(item)) this.#outcomes.set(item, undefined);
  }

  succeed(item: PendingRequest, response: InferResponse): void {
    this.#outcomes.set(item, { response });
    this.release();
  }

  fail(item: PendingRequest, error: InferError): void {
    if (!this.#outcomes.has(item)) {
      this.#open.fail(item, error);
      return;
    }
    this.#outcomes.set(item, { error });
    this.release();
  }

  /** Hands out all answers that nothing before them holds back. Called as well when a caller has gone. */
  release(): void {
    const sizeBefore = this.#outcomes.size;
    const nowMs = this.#clock.now();
    for (const [item, outcome] of this.#outcomes) {
      if (!item.settled) {
        if (!outcome) break;
        if ('response' in outcome) this.#open.succeed(item, outcome.response, nowMs);
        else this.#open.fail(item, outcome.error);
      }
      this.#outcomes.delete(item);
    }
    if (sizeBefore >= MAX_BEGUN && this.#outcomes.size < MAX_BEGUN) this.#onRoom();
  }
}
