import type { TrafficEntry, TrafficStore } from '../../../shared/traffic/traffic-store.ts';

/** Entries of this process alone. They end with it. */
export class MemoryTrafficStore implements TrafficStore {
  readonly #entries = new Map<string, TrafficEntry>();

  get(model: string): TrafficEntry | undefined {
    return this.#entries.get(model);
  }

  set(model: string, entry: TrafficEntry): Promise<void> {
    this.#entries.set(model, entry);
    return Promise.resolve();
  }

  clear(model: string): Promise<void> {
    this.#entries.delete(model);
    return Promise.resolve();
  }

  replace(model: string, before: TrafficEntry | undefined, entry: TrafficEntry): Promise<boolean> {
    if (this.#entries.get(model) !== before) return Promise.resolve(false);
    this.#entries.set(model, entry);
    return Promise.resolve(true);
  }
}
