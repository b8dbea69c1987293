import type { Call } from '../../../shared/infer/call.ts';
import type { InferRequest } from '../../../shared/infer/request.ts';
import type { InferResponse } from '../../../shared/infer/response.ts';
import { Executor } from '../execute/executor.ts';
import { closeGracefully } from './close-gracefully.ts';
import type { WaitingLine } from './open-requests.ts';
import { OpenRequests } from './open-requests.ts';
import type { PendingRequest } from './pending-request.ts';
import { RequestQueue } from './request-queue.ts';
import type { Scheduler, SchedulerOptions } from './scheduler.ts';

/** One request is one run, in the order of arrival, whatever its rows. For models without dynamic batching. */
export class DirectScheduler implements Scheduler, WaitingLine {
  readonly #options: SchedulerOptions;
  readonly #open: OpenRequests;
  readonly #executor: Executor;
  readonly #queue = new RequestQueue();

  constructor(options: SchedulerOptions) {
    this.#options = options;
    this.#open = new OpenRequests(options);
    this.#executor = new Executor({ ...options, open: this.#open }, () => this.#pump());
  }

  enqueue(request: InferRequest, call: Call): Promise<InferResponse> {
    return this.#open.admit(request, call, this);
  }

  pending(): number {
    return this.#queue.count;
  }

  accept(item: PendingRequest): void {
    this.#queue.push(item);
    this.#pump();
  }

  withdraw(item: PendingRequest): void {
    this.#queue.remove(item);
  }

  async close(graceMs: number): Promise<boolean> {
    const empty = this.#open.close();
    const parts = { model: this.#options.plan.model, open: this.#open, executor: this.#executor };
    const takeWaiting = () => this.#queue.take(this.#queue.count);
    return closeGracefully({ ...parts, clock: this.#options.clock }, empty, graceMs, takeWaiting);
  }

  #pump(): void {
    while (this.#queue.count > 0 && this.#executor.idle) {
      if (!this.#executor.reserve()) return;
      this.#executor.start(this.#queue.take(1), 'direct');
    }
  }
}
