import { InferError } from '../../../shared/errors.ts';

/** Lets only so many pieces of work go on at once; the others wait in the order in which they came. */
export class WorkLine {
  readonly #width: number;
  readonly #maxWaiting: number;
  readonly #waiting: (() => void)[] = [];
  #working = 0;

  constructor(width: number, maxWaiting = Infinity) {
    this.#width = width;
    this.#maxWaiting = maxWaiting;
  }

  get busy(): boolean {
    return this.#working > 0;
  }

  /** How many wait. */
  get waiting(): number {
    return this.#waiting.length;
  }

  /** After all that waits now, however much that is. */
  async settled(): Promise<void> {
    if (this.#working === 0) return;
    await new Promise<void>((resolve) => {
      this.#waiting.push(resolve);
    });
    this.#leave();
  }

  /** @throws InferError RESOURCE_EXHAUSTED when too many wait; whatever the work throws. */
  async next<T>(work: () => Promise<T>): Promise<T> {
    if (this.#working < this.#width) this.#working += 1;
    else await this.#wait(); // whoever leaves hands over its place
    try {
      return await work();
    } finally {
      this.#leave();
    }
  }

  #leave(): void {
    const next = this.#waiting.shift();
    if (next) next();
    else this.#working -= 1;
  }

  #wait(): Promise<void> {
    if (this.#waiting.length >= this.#maxWaiting) {
      const text = `${this.#waiting.length} changes of the model wait already, no more are taken`;
      return Promise.reject(new InferError('RESOURCE_EXHAUSTED', text));
    }
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
    });
  }
}
