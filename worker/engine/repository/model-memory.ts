import { setTimeout as sleep } from 'node:timers/promises';
import { InferError } from '../../../shared/errors.ts';
import type { Logger } from '../../../shared/runtime/logger.ts';
import type { ModelLifecycle } from '../model-lifecycle.ts';
import { type Entry, isNeeded } from './entry.ts';
import type { LoadedSource } from './plan-load.ts';

export interface ModelMemoryOptions {
  /** Bytes of model files that may be loaded at once; Infinity for any number. */
  readonly budgetBytes: number;
  readonly entries: () => Iterable<Entry>;
  /** Unloads a model. */
  readonly drop: (entry: Entry) => void;
  readonly logger: Logger;
}

/** How long a load waits for models in use to become idle, when it needs their room, in ms. */
const ROOM_WAIT_MS = 30_000;
const LOOK_MS = 20;

/** Keeps the models that are loaded at once within a budget, counted by the bytes of their files. */
export class ModelMemory {
  readonly #options: ModelMemoryOptions;

  constructor(options: ModelMemoryOptions) {
    this.#options = options;
  }

  /**
   * Unloads models that were loaded on demand and are not in use, the one that was asked for longest ago first, until the
   * new one fits.
   * @throws InferError RESOURCE_EXHAUSTED when it cannot
   */
  async makeFor(entry: Entry, now: LoadedSource): Promise<void> {
    const { budgetBytes, drop, logger } = this.#options;
    if (budgetBytes === Infinity) return;
    const needed = bytesOf(now);
    if (needed > budgetBytes) throw this.#noRoom(entry, needed, 'that is more than there is for all models');
    const untilMs = performance.now() + ROOM_WAIT_MS;
    while (this.#bytesBeside(entry) + needed > budgetBytes) {
      const mayLeave = [...this.#options.entries()].filter((other) => other !== entry && this.#mayLeave(other));
      const idle = mayLeave.filter(({ lifecycle }) => isIdle(lifecycle)).sort((a, b) => a.usedMs - b.usedMs);
      const [oldest] = idle;
      if (oldest) {
        logger.info({ model: oldest.name, for: entry.name }, 'model unloaded to make room');
        drop(oldest);
        await oldest.lifecycle.left();
      } else if (mayLeave.length === 0) {
        throw this.#noRoom(entry, needed, 'the other models were loaded by name and stay');
      } else if (performance.now() > untilMs) {
        throw this.#noRoom(entry, needed, 'the other models are in use');
      } else await sleep(LOOK_MS);
    }
    entry.reservedBytes = needed; // in the same turn as the last look, so that no two loads get the same room
  }

  #bytesBeside(entry: Entry): number {
    let bytes = 0;
    for (const other of this.#options.entries()) {
      if (!other.lifecycle.idle) bytes += other.leavingBytes;
      if (other !== entry) bytes += Math.max(other.loaded ? bytesOf(other.loaded) : 0, other.reservedBytes);
    }
    return bytes;
  }

  #mayLeave({ name, lifecycle, byName, line }: Entry): boolean {
    return lifecycle.serves && !byName && !line.busy && !isNeeded(name, this.#options.entries());
  }

  #noRoom({ name }: Entry, needed: number, why: string): InferError {
    const text = `model "${name}" needs ${needed} bytes of the ${this.#options.budgetBytes} for models: ${why}`;
    return new InferError('RESOURCE_EXHAUSTED', text);
  }
}

/** Nobody waits for it, and none of its sequences would be lost. */
function isIdle(lifecycle: ModelLifecycle): boolean {
  return lifecycle.open() === 0 && lifecycle.sequences() === 0;
}

/** Zero for a model whose files came with the load. */
export function bytesOf({ source, fingerprint }: LoadedSource): number {
  return source.versions.reduce((sum, version) => sum + (fingerprint?.bytes.get(version) ?? 0), 0);
}
