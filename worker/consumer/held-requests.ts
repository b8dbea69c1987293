import { InferError } from '../../shared/errors.ts';
import type { Call } from '../../shared/infer/call.ts';
import { ChurnSet } from '../../shared/runtime/churn.ts';

/** A request that this worker has taken from the queue and not answered yet. */
export interface HeldRequest {
  readonly producer: string;
  readonly sequence: number;
  readonly call: Call;
}

/** Ends a call that goes back to the queue; it is no answer, and nobody ever sees it. */
export const GIVEN_BACK = new InferError('CANCELLED', 'the worker gives the request back to the queue');

/** All requests in hand, over all models. */
export class HeldRequests {
  readonly #requests = new ChurnSet<HeldRequest>();

  get count(): number {
    return this.#requests.size;
  }

  add(request: HeldRequest): void {
    this.#requests.add(request);
  }

  delete(request: HeldRequest): void {
    this.#requests.delete(request);
  }

  /** Those that wait since before `arrivedBeforeMs` and do not run yet, by producer. */
  waiting(arrivedBeforeMs: number): Map<string, HeldRequest[]> {
    const byProducer = new Map<string, HeldRequest[]>();
    for (const request of this.#requests) {
      if (request.call.started || request.call.arrivalMs > arrivedBeforeMs) continue;
      const list = byProducer.get(request.producer);
      if (list) list.push(request);
      else byProducer.set(request.producer, [request]);
    }
    return byProducer;
  }

  /** Takes everything back that does not run yet. */
  giveBackWaiting(): void {
    for (const request of [...this.#requests]) if (!request.call.started) request.call.cancel(GIVEN_BACK);
  }
}
