import type { InferError } from '../../../shared/errors.ts';
import type { Call } from '../../../shared/infer/call.ts';
import type { InferRequest } from '../../../shared/infer/request.ts';
import type { InferResponse } from '../../../shared/infer/response.ts';
import type { Tensor } from '../../../shared/tensor/tensor.ts';
import type { Ticket } from './ticket.ts';

/** The batch that a request runs in. */
export interface OwnBatch {
  /** The request is not waited for any more. */
  leave(): void;
}

/**
 * A request from the moment the engine took it in until it is settled: first in a queue, then in a batch
 * (`batch` set), then `settled`. It is its own link in the queue's list, so that leaving the queue costs nothing.
 */
export class PendingRequest {
  readonly request: InferRequest;
  readonly call: Call;
  /** In the order of the model's config; optional ones may be missing. */
  readonly inputs: readonly Tensor[];
  readonly rows: number;
  /** Requests with the same key may share a run. */
  readonly groupKey: string;
  readonly enqueuedMs: number;
  readonly resolve: (response: InferResponse) => void;
  readonly reject: (error: InferError) => void;
  settled = false;
  /** A row that stands for a place without a request; it is settled from the start. */
  empty = false;
  batch: OwnBatch | undefined;
  /** Its place in a queue with levels, while it waits in one. */
  ticket: Ticket | undefined;
  next: PendingRequest | undefined;
  previous: PendingRequest | undefined;

  constructor(
    request: InferRequest,
    call: Call,
    inputs: readonly Tensor[],
    rows: number,
    groupKey: string,
    enqueuedMs: number,
    resolve: (response: InferResponse) => void,
    reject: (error: InferError) => void,
  ) {
    this.request = request;
    this.call = call;
    this.inputs = inputs;
    this.rows = rows;
    this.groupKey = groupKey;
    this.enqueuedMs = enqueuedMs;
    this.resolve = resolve;
    this.reject = reject;
  }
}
