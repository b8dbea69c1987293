import { InferError } from '../../shared/errors.ts';
import type { Call } from '../../shared/infer/call.ts';
import type { InferRequest } from '../../shared/infer/request.ts';
import type { InferResponse } from '../../shared/infer/response.ts';
import { ChurnMap } from '../../shared/runtime/churn.ts';
import type { Reply } from '../../shared/wire/reply.ts';

/** A request that somebody waits for, from arrival until it is settled. */
export interface PendingRequest {
  readonly sequence: number;
  /** As it is sent; one that belongs to a sequence names the version that has it. */
  request: InferRequest;
  readonly call: Call;
  readonly rows: number;
  readonly bytes: number;
  /** Id of the bundle that carries it; '' while it waits for one. */
  bundle: string;
  /** The version whose queue carries it; '' for the queue of the model. */
  queueVersion: string;
  /** The worker whose own queue carries it, where it matters which one; '' otherwise. */
  worker: string;
  /** How often it was sent again because the worker that got it does not serve the model any more. */
  resends: number;
  /** Redis has acknowledged the bundle. */
  queued: boolean;
  settled: boolean;
  readonly resolve: (response: InferResponse) => void;
  readonly reject: (error: InferError) => void;
  /** How many wait for the same model version. */
  readonly gauge: Gauge;
}

export interface Gauge {
  count: number;
}

/** Everything that waits for an answer, by sequence number. The first answer wins; what comes later is only counted. */
export class PendingRequests {
  readonly #bySequence = new ChurnMap<number, PendingRequest>();
  #bytes = 0;
  #lateAnswers = 0;
  readonly #onSettled: (request: PendingRequest) => void;
  #onEmpty: (() => void) | undefined;

  /** `onSettled` is told of every request that nobody waits for any more. */
  constructor(onSettled: (request: PendingRequest) => void = () => undefined) {
    this.#onSettled = onSettled;
  }

  get count(): number {
    return this.#bySequence.size;
  }

  /** Bytes of all tensors that wait. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Answers that came when nobody waited for them: after a deadline, a cancellation, or for the second time. */
  get lateAnswers(): number {
    return this.#lateAnswers;
  }

  add(request: PendingRequest): void {
    this.#bySequence.set(request.sequence, request);
    this.#bytes += request.bytes;
    request.gauge.count += 1;
  }

  /** Who waits for it; undefined when nobody does any more. */
  get(sequence: number): PendingRequest | undefined {
    return this.#bySequence.get(sequence);
  }

  settle(reply: Reply): void {
    const request = this.#take(reply.sequence);
    if (!request) this.#lateAnswers += 1;
    else if ('response' in reply) request.resolve(reply.response);
    else request.reject(reply.error);
  }

  /** Returns whether somebody still waited. */
  fail(sequence: number, error: InferError): boolean {
    const request = this.#take(sequence);
    request?.reject(error);
    return request !== undefined;
  }

  values(): Iterable<PendingRequest> {
    return this.#bySequence.values();
  }

  /** Lets what waits end by itself for `graceMs`, then fails the rest. */
  async close(graceMs: number): Promise<void> {
    if (this.count > 0 && graceMs > 0) {
      let timer: NodeJS.Timeout | undefined;
      await new Promise<void>((resolve) => {
        this.#onEmpty = resolve;
        timer = setTimeout(resolve, graceMs);
      });
      clearTimeout(timer);
    }
    const error = new InferError('UNAVAILABLE', 'the server was shut down before the answer came');
    for (const { sequence } of [...this.#bySequence.values()]) this.fail(sequence, error);
  }

  #take(sequence: number): PendingRequest | undefined {
    const request = this.#bySequence.get(sequence);
    if (!request) return undefined;
    this.#bySequence.delete(sequence);
    this.#bytes -= request.bytes;
    request.gauge.count -= 1;
    request.settled = true;
    this.#onSettled(request);
    if (this.#bySequence.size === 0) this.#onEmpty?.();
    return request;
  }
}
