import type { InferError } from '../../../shared/errors.ts';
import { Call } from '../../../shared/infer/call.ts';
import type { InferRequest } from '../../../shared/infer/request.ts';
import type { InferResponse } from '../../../shared/infer/response.ts';
import { copyResponse } from './copy-response.ts';

/** How a waiting caller came to the answer. */
export type AnsweredBy = 'run' | 'store' | 'companion';

export interface Answer {
  readonly response: InferResponse;
  readonly by: AnsweredBy;
}

/** One of the callers that wait for the same answer. */
interface Waiter {
  readonly request: InferRequest;
  readonly call: Call;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
}

/** Finds the answer, by looking it up or by running the request. Settles at the latest when its call is cancelled. */
export type Find = (request: InferRequest, call: Call) => Promise<Answer>;

/**
 * One search for an answer and all who wait for it. It has a call of its own with the deadline of the one that leads it,
 * and is cancelled when the last has left. Where it ends by that deadline, others may still have time: then the one with
 * the most leads the next search. Any other error is everybody's.
 */
export class Flight {
  readonly #find: Find;
  /** Nobody may join any more. */
  readonly #onOver: () => void;
  readonly #waiting = new Set<Waiter>();
  #call: Call | undefined;

  constructor(find: Find, onOver: () => void) {
    this.#find = find;
    this.#onOver = onOver;
  }

  /** The first to join leads. */
  join(request: InferRequest, call: Call): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const waiter: Waiter = { request, call, resolve, reject };
      this.#waiting.add(waiter);
      call.onCancel((error) => this.#leave(waiter, error));
      if (!this.#call) this.#lead(waiter);
    });
  }

  #lead(leader: Waiter): void {
    const { request, call: own } = leader;
    const call = new Call(own.id, own.arrivalMs, own.deadlineMs, own.priority);
    this.#call = call;
    if (own.error) call.cancel(own.error);
    this.#find(request, call).then(
      (answer) => this.#answer(leader, answer),
      (error: unknown) => this.#fail(call, error),
    );
  }

  #answer(leader: Waiter, { response, by }: Answer): void {
    this.#onOver();
    // Copies first: whoever led may give the memory back as soon as it has the answer.
    const answers = [...this.#waiting].map((waiter): [Waiter, Answer] =>
      waiter === leader
        ? [waiter, { response, by }]
        : [waiter, { response: copyResponse(response), by: by === 'run' ? 'companion' : by }],
    );
    this.#waiting.clear();
    for (const [waiter, answer] of answers) waiter.resolve(answer);
  }

  #fail(call: Call, error: unknown): void {
    const next = call.deadlineMs <= performance.now() ? this.#lastToLeave() : undefined;
    if (next) {
      this.#lead(next);
      return;
    }
    this.#onOver();
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const waiter of waiting) waiter.reject(error);
  }

  /** Of those who still have time, the one with the most. */
  #lastToLeave(): Waiter | undefined {
    const nowMs = performance.now();
    let last: Waiter | undefined;
    for (const waiter of this.#waiting) {
      if (waiter.call.deadlineMs > nowMs && waiter.call.deadlineMs > (last?.call.deadlineMs ?? 0)) last = waiter;
    }
    return last;
  }

  #leave(waiter: Waiter, error: InferError): void {
    if (!this.#waiting.has(waiter)) return;
    if (this.#waiting.size > 1) {
      this.#waiting.delete(waiter);
      waiter.reject(error);
      return;
    }
    // The search may know a better reason for its end, so it is what answers the last one.
    this.#onOver();
    this.#call?.cancel(error);
  }
}
