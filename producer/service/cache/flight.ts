import { InferError } from '../../../shared/errors.ts';
import { Call } from '../../../shared/infer/call.ts';
import type { InferRequest } from '../../../shared/infer/request.ts';
import type { InferResponse } from '../../../shared/infer/response.ts';
import type { Clock } from '../../../shared/runtime/clock.ts';
import { copyResponse } from './copy-response.ts';

export interface Answer {
  readonly response: InferResponse;
  /** Whether the one who gets it has run the model for it. */
  readonly ran: boolean;
}

/** Finds the answer, by looking it up or by running the request. Settles at the latest when its call is cancelled. */
export type Find = (request: InferRequest, call: Call) => Promise<Answer>;

/** One of the callers that wait for the same answer. */
interface Waiter {
  readonly request: InferRequest;
  readonly call: Call;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
}

interface Search {
  readonly leader: Waiter;
  /** With the leader's deadline, and cancelled when the last waiter has left. */
  readonly call: Call;
}

/** The longest time that a timer can count, in ms. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/**
 * One search for an answer and all who wait for it. Each leaves by its own deadline or cancellation, and the search goes on
 * for the others. A search that ends by its leader's deadline is begun again for those who still have time; any other error
 * is everybody's.
 */
export class Flight {
  readonly #find: Find;
  readonly #clock: Clock;
  /** Called when nobody may join any more, perhaps twice. */
  readonly #onOver: () => void;
  readonly #waiting = new Set<Waiter>();
  #search: Search | undefined;
  #stopTimer: (() => void) | undefined;

  constructor(find: Find, clock: Clock, onOver: () => void) {
    this.#find = find;
    this.#clock = clock;
    this.#onOver = onOver;
  }

  /** The first to join leads the search. */
  join(request: InferRequest, call: Call): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const waiter: Waiter = { request, call, resolve, reject };
      this.#waiting.add(waiter);
      if (!this.#search) this.#lead(waiter);
      call.onCancel((error) => this.#leave(waiter, error));
    });
  }

  #lead(leader: Waiter): void {
    const { id, arrivalMs, deadlineMs, priority } = leader.call;
    const search = { leader, call: new Call(id, arrivalMs, deadlineMs, priority) };
    this.#search = search;
    this.#find(leader.request, search.call).then(
      (answer) => this.#answer(search, answer),
      (error: unknown) => this.#fail(search, error),
    );
  }

  #answer({ leader }: Search, { response, ran }: Answer): void {
    const waiting = this.#end();
    // Copies first: whoever led may give the memory back as soon as it has the answer.
    const answers = waiting.map((waiter): Answer =>
      waiter === leader ? { response, ran } : { response: copyResponse(response), ran: false },
    );
    for (const [index, waiter] of waiting.entries()) waiter.resolve(answers[index] ?? { response, ran });
  }

  #fail({ call }: Search, error: unknown): void {
    // A timer may fire a little before the clock gets there, so how the search ended counts as well.
    const late = call.error?.code === 'DEADLINE_EXCEEDED' || call.deadlineMs <= this.#clock.now();
    const next = late ? this.#lastToLeave() : undefined;
    if (next) this.#lead(next);
    else for (const waiter of this.#end()) waiter.reject(error);
  }

  #end(): Waiter[] {
    this.#onOver();
    this.#stopTimer?.();
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    return waiting;
  }

  /** Of those who still have time, the one with the most. */
  #lastToLeave(): Waiter | undefined {
    let last: Waiter | undefined;
    for (const waiter of this.#waiting) {
      const { deadlineMs, error } = waiter.call;
      if (!error && deadlineMs > (last?.call.deadlineMs ?? this.#clock.now())) last = waiter;
    }
    return last;
  }

  #leave(waiter: Waiter, error: InferError): void {
    if (!this.#waiting.has(waiter) || !this.#search) return;
    const { call, leader } = this.#search;
    if (this.#waiting.size === 1) {
      // The search may know a better reason for its end, so it is what answers the last one.
      this.#onOver();
      call.cancel(error);
      return;
    }
    this.#waiting.delete(waiter);
    waiter.reject(error);
    if (waiter === leader) this.#watchDeadline(call);
  }

  /** Until now the leader did, as its own. */
  #watchDeadline(call: Call): void {
    const end = () =>
      call.cancel(new InferError('DEADLINE_EXCEEDED', 'the deadline of the first such request is over'));
    const leftMs = call.deadlineMs - this.#clock.now();
    if (leftMs <= 0) end();
    else if (leftMs <= MAX_TIMER_MS) this.#stopTimer = this.#clock.setTimer(end, leftMs);
  }
}
