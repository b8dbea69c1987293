import { InferError } from '../../shared/errors.ts';
import type { InferFn } from '../../shared/infer/ports.ts';

/**
 * Counts requests that failed by a fault of the model or the server, one after the other with none that succeeded between
 * them. A GPU that has failed once may fail every run from then on, until its process is started anew.
 */
export class FailureStreak {
  readonly #max: number;
  readonly #onTooMany: () => void;
  #length = 0;

  /** @param max after so many `onTooMany` is called, once; 0 for never */
  constructor(max: number, onTooMany: () => void) {
    this.#max = max;
    this.#onTooMany = onTooMany;
  }

  get length(): number {
    return this.#length;
  }

  wrap(infer: InferFn): InferFn {
    return async (request, call) => {
      try {
        const response = await infer(request, call);
        this.#length = 0;
        return response;
      } catch (error) {
        if (InferError.from(error).code === 'INTERNAL') this.#count();
        throw error;
      }
    };
  }

  #count(): void {
    this.#length += 1;
    if (this.#length === this.#max) this.#onTooMany();
  }
}
