import type { Clock } from '../../../shared/runtime/clock.ts';
import { admit, createLimitsState, giveBack, type LimitsState } from './decide.ts';
import type { Ask, Refusal, SharedLimits } from './limits.ts';

/** The counts of one process. */
export class MemoryLimits implements SharedLimits {
  readonly #clock: Pick<Clock, 'now'>;
  readonly #state: LimitsState;

  constructor(clock: Pick<Clock, 'now'>) {
    this.#clock = clock;
    this.#state = createLimitsState(this.#nowUs());
  }

  enter(ask: Ask): Promise<Refusal | undefined> {
    return Promise.resolve(admit(this.#state, ask, this.#nowUs()));
  }

  leave(ask: Ask): void {
    giveBack(this.#state, ask, this.#nowUs());
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  #nowUs(): number {
    return Math.round(this.#clock.now() * 1000);
  }
}
