import { InferError } from '../../../shared/errors.ts';
import { NotServed } from '../../../shared/infer/not-served.ts';
import type { Clock } from '../../../shared/runtime/clock.ts';
import type { Executor } from '../execute/executor.ts';
import { Grace } from './grace.ts';
import type { OpenRequests } from './open-requests.ts';
import type { PendingRequest } from './pending-request.ts';

export interface ClosingParts {
  readonly model: string;
  readonly open: OpenRequests;
  readonly executor: Pick<Executor, 'abort' | 'close'>;
  readonly clock: Clock;
  /** Nothing more comes: what waits need not wait for company. */
  readonly drain: () => void;
  readonly takeWaiting: () => PendingRequest[];
}

/** The end of any scheduler. When it is closed again, the shorter grace holds. */
export class GracefulClose {
  readonly #parts: ClosingParts;
  readonly #grace: Grace;
  #closed: Promise<boolean> | undefined;

  constructor(parts: ClosingParts) {
    this.#parts = parts;
    this.#grace = new Grace(parts.clock);
  }

  /**
   * Lets requests end for `graceMs`, then fails those that wait and those that run, and closes the instances. False when
   * one could not be closed.
   */
  close(graceMs: number): Promise<boolean> {
    this.#grace.shorten(graceMs);
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<boolean> {
    const { model, open, executor, drain, takeWaiting } = this.#parts;
    open.close(() => this.#grace.notice());
    drain();
    await this.#grace.until(() => open.count === 0);
    const text = `model '${model}' was unloaded before the request was answered`;
    for (const item of takeWaiting()) open.fail(item, new NotServed('UNAVAILABLE', text));
    executor.abort(new InferError('UNAVAILABLE', text));
    return executor.close();
  }
}
