import { InferError } from '../../../shared/errors.ts';
import type { Call } from '../../../shared/infer/call.ts';
import type { ModelStats } from '../../../shared/infer/model-stats.ts';
import { NotServed } from '../../../shared/infer/not-served.ts';
import { type InferRequest, rowsOf } from '../../../shared/infer/request.ts';
import type { InferResponse } from '../../../shared/infer/response.ts';
import { assertRequestFits } from '../../../shared/infer/validate-request.ts';
import type { Clock } from '../../../shared/runtime/clock.ts';
import { groupKey } from '../batch/group-key.ts';
import { orderInputs } from '../batch/order-inputs.ts';
import type { ModelPlan } from '../batch/model-plan.ts';
import type { DeadlineSweep } from './deadline-sweep.ts';
import { deadlineError } from './deadline-sweep.ts';
import { PendingRequest } from './pending-request.ts';

/** Where admitted requests wait. */
export interface WaitingLine {
  pending(): number;
  /** Why the model's queue policy lets no such request in; undefined when it does. */
  refusal(call: Call): InferError | undefined;
  accept(item: PendingRequest): void;
  /** Lets begin what was accepted and only waits for the end of this turn. */
  takeIn?(): void;
  /** The item, which was accepted and not put into a batch since, is not waited for any more. */
  withdraw(item: PendingRequest): void;
}

/** The requests of one model version between entry and answer. The only place where they are settled and counted. */
export class OpenRequests {
  readonly #plan: ModelPlan;
  readonly #stats: ModelStats;
  readonly #deadlines: DeadlineSweep;
  readonly #clock: Clock;
  readonly #maxQueueSize: number;
  #count = 0;
  #closing = false;
  #onEmpty: (() => void) | undefined;

  constructor(options: {
    readonly plan: ModelPlan;
    readonly stats: ModelStats;
    readonly deadlines: DeadlineSweep;
    readonly clock: Clock;
    readonly maxQueueSize: number;
  }) {
    this.#plan = options.plan;
    this.#stats = options.stats;
    this.#deadlines = options.deadlines;
    this.#clock = options.clock;
    this.#maxQueueSize = options.maxQueueSize;
  }

  get count(): number {
    return this.#count;
  }

  /** Checks a request and puts it into the line. Never throws: what is wrong rejects the promise. */
  admit(request: InferRequest, call: Call, line: WaitingLine): Promise<InferResponse> {
    return new Promise((resolve, reject) => {
      // An error thrown in here rejects the promise.
      assertRequestFits(this.#plan.contract, request);
      const inputs = orderInputs(this.#plan, request.inputs);
      const rows = rowsOf(this.#plan.batched, inputs);
      this.#assertRoom(line, call);
      const nowMs = this.#clock.now();
      if (call.error === undefined && call.deadlineMs <= nowMs) call.cancel(deadlineError(call));
      if (call.error) {
        this.#stats.recordFailure(call.error, (nowMs - call.arrivalMs) * 1000);
        throw call.error;
      }
      const key = groupKey(this.#plan, inputs);
      const item = new PendingRequest(request, call, inputs, rows, key, nowMs, resolve, reject);
      this.#count += 1;
      call.onCancel((error) => this.#abandon(item, line, error));
      this.#deadlines.watch(call);
      line.accept(item);
    });
  }

  succeed(item: PendingRequest, response: InferResponse, nowMs: number): void {
    if (item.settled) return;
    this.#stats.recordSuccess(item.rows, (nowMs - item.call.arrivalMs) * 1000, response.timings);
    this.#settle(item);
    item.resolve(response);
  }

  fail(item: PendingRequest, error: InferError): void {
    if (item.settled) return;
    this.#stats.recordFailure(error, (this.#clock.now() - item.call.arrivalMs) * 1000);
    this.#settle(item);
    item.reject(error);
  }

  /** Refuses requests from now on. Calls back when the last in hand is settled, if there are any. */
  close(onEmpty: () => void): void {
    this.#closing = true;
    this.#onEmpty = onEmpty;
  }

  #assertRoom(line: WaitingLine, call: Call): void {
    if (this.#closing) throw new NotServed('UNAVAILABLE', `model '${this.#plan.model}' is being unloaded`);
    if (!this.#refusal(line, call)) return;
    line.takeIn?.();
    const refusal = this.#refusal(line, call);
    if (refusal) throw refusal;
  }

  #refusal(line: WaitingLine, call: Call): InferError | undefined {
    if (line.pending() < this.#maxQueueSize) return line.refusal(call);
    const text = `Exceeds maximum queue size: ${this.#maxQueueSize} requests wait for model '${this.#plan.model}'`;
    return new InferError('RESOURCE_EXHAUSTED', text, { refusedAt: 'entry' });
  }

  #abandon(item: PendingRequest, line: WaitingLine, error: InferError): void {
    if (item.settled) return;
    const { batch } = item;
    this.fail(item, error);
    if (batch) batch.leave();
    else line.withdraw(item);
  }

  #settle(item: PendingRequest): void {
    item.settled = true;
    item.batch = undefined;
    this.#deadlines.forget(item.call);
    this.#count -= 1;
    if (this.#count === 0) this.#onEmpty?.();
  }
}
