import type { Logger } from '../../../shared/runtime/logger.ts';

/** Looks again and again, never twice at once. */
export class RepeatedLook {
  readonly #look: () => Promise<number>;
  readonly #logger: Logger;
  #timer: NodeJS.Timeout | undefined;
  #looking = Promise.resolve();
  #ended = false;

  /** @param look answers after how many ms to look again */
  constructor(look: () => Promise<number>, logger: Logger) {
    this.#look = look;
    this.#logger = logger;
  }

  /** The first look is in so many ms; after one that fails it is as long to the next. */
  start(ms: number): void {
    if (this.#ended) return;
    this.#timer = setTimeout(() => {
      this.#looking = this.#look()
        .catch((error: unknown) => {
          this.#logger.warn({ err: error }, 'model repository not looked at');
          return ms;
        })
        .then((nextMs) => this.start(nextMs));
    }, ms);
    this.#timer.unref();
  }

  /** Resolves when the look under way, if there is one, is over. */
  async end(): Promise<void> {
    this.#ended = true;
    clearTimeout(this.#timer);
    await this.#looking;
  }
}
