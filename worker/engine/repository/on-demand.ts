import type { Clock } from '../../../shared/runtime/clock.ts';
import type { Entry } from './entry.ts';
import { fingerprintModel, sameFingerprint } from './fingerprint.ts';

export interface OnDemandParts {
  /** Whether a request for a model that nobody has loaded loads it. */
  readonly enabled: boolean;
  readonly clock: Clock;
  /** Loads a model, if that is still wanted when its turn has come. */
  readonly load: (entry: Entry, stillWanted: () => boolean) => Promise<void>;
}

/**
 * Loads models that requests come for. One that could not be loaded is not tried again for each of them: only after a
 * while, or when its files have changed. Until then they are told why it could not.
 */
export class OnDemand {
  readonly #parts: OnDemandParts;

  constructor(parts: OnDemandParts) {
    this.#parts = parts;
  }

  /** Whether a request may have the model loaded. */
  wakesUp(entry: Entry): boolean {
    return this.#parts.enabled && entry.folder !== undefined && entry.wakeable && !entry.lifecycle.serves;
  }

  /** Whether a request that comes now does have it loaded. */
  tries(entry: Entry): boolean {
    return this.wakesUp(entry) && !entry.delay.holds(this.#parts.clock.now());
  }

  /** A request has come; undefined when there is nothing to wait for. Never rejects: the model's state says what is wrong. */
  wake(entry: Entry): Promise<void> | undefined {
    if (!this.#parts.enabled) return undefined;
    entry.usedMs = performance.now();
    if (!this.wakesUp(entry)) return undefined;
    if (!entry.waking && !this.tries(entry) && !entry.delay.mayLook(this.#parts.clock.now())) return undefined;
    entry.waking ??= this.#wakeUp(entry).finally(() => {
      entry.waking = undefined;
    });
    return entry.waking;
  }

  async #wakeUp(entry: Entry): Promise<void> {
    if (!this.tries(entry) && !(await hasChanged(entry))) return;
    try {
      // Looked at again when its turn has come: it may have been unloaded on purpose meanwhile.
      await this.#parts.load(entry, () => this.wakesUp(entry));
    } catch {
      entry.wanted = entry.byName || entry.lifecycle.serves; // only requests try again, and nothing else does
    }
  }
}

/** Whether the files are others than those that could not be loaded. */
async function hasChanged({ folder, failed }: Entry): Promise<boolean> {
  return folder !== undefined && !sameFingerprint(await fingerprintModel(folder.path), failed);
}
