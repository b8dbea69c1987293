import type { Call } from '../../../shared/infer/call.ts';
import type { InferRequest } from '../../../shared/infer/request.ts';
import type { InferResponse } from '../../../shared/infer/response.ts';
import { Executor } from '../execute/executor.ts';
import { GracefulClose } from './close-gracefully.ts';
import type { WaitingLine } from './open-requests.ts';
import { OpenRequests } from './open-requests.ts';
import type { PendingRequest } from './pending-request.ts';
import { RequestQueue } from './request-queue.ts';
import type { Scheduler, SchedulerOptions } from './scheduler.ts';

/** One request is one run, in the order of arrival, whatever its rows. For models without dynamic batching. */
export class DirectScheduler implements Scheduler, WaitingLine {
  readonly #open: OpenRequests;
  readonly #executor: Executor;
  readonly #queue = new RequestQueue('');
  readonly #end: GracefulClose;

  constructor(options: SchedulerOptions) {
    const open = new OpenRequests(options);
    const executor = new Executor({ ...options, open }, () => this.#pump());
    this.#open = open;
    this.#executor = executor;
    this.#end = new GracefulClose({
      model: options.plan.model,
      open,
      executor,
      clock: options.clock,
      drain: () => {},
      takeWaiting: () => this.#queue.take(this.#queue.count),
    });
  }

  enqueue(request: InferRequest, call: Call): Promise<InferResponse> {
    return this.#open.admit(request, call, this);
  }

  /** Models without dynamic batching have no queue policy. */
  refusal(): undefined {
    return undefined;
  }

  pending(): number {
    return this.#queue.count;
  }

  open(): number {
    return this.#open.count;
  }

  accept(item: PendingRequest): void {
    this.#queue.push(item);
    this.#pump();
  }

  withdraw(item: PendingRequest): void {
    this.#queue.remove(item);
  }

  close(graceMs: number): Promise<boolean> {
    return this.#end.close(graceMs);
  }

  #pump(): void {
    while (this.#queue.count > 0 && this.#executor.idle) {
      if (!this.#executor.reserve()) return;
      this.#executor.start(this.#queue.take(1), 'direct');
    }
  }
}
