import type { Clock } from '../../shared/runtime/clock.ts';
import type { QueueCatalog } from './queue-catalog.ts';

/** By then a worker has told of a place that was taken, and this producer has read it, in ms. */
const TOLD_AFTER_MS = 1500;
const MAX_KNOWN = 1024;

/** What this producer has given away at one worker, as far as that worker has not told of it yet. */
interface Given {
  /** The free places that the worker told of last. */
  told: number;
  /** When each place was given, oldest first. */
  readonly atMs: number[];
}

/** Which workers have places for sequences: what they tell, less what this producer has given away since. */
export class FreePlaces {
  readonly #catalog: Pick<QueueCatalog, 'freePlaces'>;
  readonly #clock: Clock;
  readonly #given = new Map<string, Given>();
  #turn = 0;

  constructor(catalog: Pick<QueueCatalog, 'freePlaces'>, clock: Clock) {
    this.#catalog = catalog;
    this.#clock = clock;
  }

  /** The workers, those with the most free places first; equal ones by turns, as where none tells (ensembles). */
  rank(model: string, version: string, workers: readonly string[]): string[] {
    this.#turn += 1;
    return workers
      .map((_, index) => workers[(index + this.#turn) % workers.length] ?? '')
      .map((worker) => ({ worker, free: this.#freeAt(model, version, worker) }))
      .sort((a, b) => b.free - a.free)
      .map(({ worker }) => worker);
  }

  /** A sequence begins at the worker. */
  give(model: string, version: string, worker: string): void {
    const key = keyOf(model, version, worker);
    const given = this.#given.get(key) ?? { told: this.#told(model, version, worker), atMs: [] };
    given.atMs.push(this.#clock.now());
    if (this.#given.size >= MAX_KNOWN) this.#given.clear(); // mostly of workers that are gone
    this.#given.set(key, given);
  }

  #freeAt(model: string, version: string, worker: string): number {
    const told = this.#told(model, version, worker);
    const key = keyOf(model, version, worker);
    const given = this.#given.get(key);
    if (!given) return told;
    // Fewer than before: some of what was given away is told of now.
    given.atMs.splice(0, Math.max(0, given.told - told));
    given.told = told;
    const sinceMs = this.#clock.now() - TOLD_AFTER_MS;
    while ((given.atMs[0] ?? Infinity) <= sinceMs) given.atMs.shift();
    if (given.atMs.length === 0) this.#given.delete(key);
    return told - given.atMs.length;
  }

  #told(model: string, version: string, worker: string): number {
    return this.#catalog.freePlaces(worker, model, version) ?? 0;
  }
}

function keyOf(model: string, version: string, worker: string): string {
  return `${worker} ${version} ${model}`;
}
