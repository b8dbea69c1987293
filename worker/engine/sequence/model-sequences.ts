import type { Clock } from '../../../shared/runtime/clock.ts';

/** The sequences of one model version, as far as the other versions need to know them. */
export interface VersionSequences {
  /** Whether the sequence takes requests without START there. */
  isLive(key: string): boolean;
}

/** More are forgotten, the ones that were lost first. */
const MAX_LOST = 100_000;

/**
 * What became of sequences that a model version does not have: they were lost when it was replaced or unloaded, or another
 * version has them. Lost ones are remembered for as long as they might have been silent, so that whoever goes on with one
 * is told, and not that he never started it. Outlives the versions.
 */
export class ModelSequences {
  readonly #clock: Clock;
  readonly #versions = new Map<VersionSequences, string>();
  /** By sequence and version, until when each is remembered, in ms; in the order in which they were lost. */
  readonly #lost = new Map<string, Map<string, number>>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  join(version: string, sequences: VersionSequences): void {
    this.#versions.set(sequences, version);
  }

  /** A version goes, and with it what lives there. */
  leave(sequences: VersionSequences, live: Iterable<string>, maxIdleMs: number): void {
    const version = this.#versions.get(sequences);
    if (version === undefined) return;
    this.#versions.delete(sequences);
    const nowMs = this.#clock.now();
    this.#forgetOld(nowMs);
    for (const key of live) {
      const lost = this.#lost.get(key) ?? new Map<string, number>();
      this.#lost.delete(key);
      this.#lost.set(key, lost.set(version, nowMs + maxIdleMs));
    }
    for (const key of this.#lost.keys()) {
      if (this.#lost.size <= MAX_LOST) break;
      this.#lost.delete(key);
    }
  }

  /**
   * Why a sequence is not where a request looks for it; undefined when it never was, or has ended. `asked` is the version
   * that the request names, '' for whichever is the latest.
   */
  whyMissing(key: string, version: string, asked: string): string | undefined {
    const lost = this.#lost.get(key);
    const untilMs = asked === '' ? Math.max(...(lost?.values() ?? [])) : (lost?.get(version) ?? -Infinity);
    if (untilMs > this.#clock.now()) return 'its model was loaded anew or unloaded';
    for (const [other, otherVersion] of this.#versions) {
      if (!other.isLive(key)) continue;
      if (otherVersion === version) return 'its model was loaded anew'; // what held it is about to go
      if (asked === '') return `it began at version ${otherVersion} of the model, and version ${version} answers now`;
    }
    return undefined;
  }

  /** The sequence begins anew. */
  begun(key: string, version: string, asked: string): void {
    const lost = this.#lost.get(key);
    if (!lost) return;
    if (asked === '') lost.clear();
    else lost.delete(version);
    if (lost.size === 0) this.#lost.delete(key);
  }

  #forgetOld(nowMs: number): void {
    for (const [key, lost] of this.#lost) {
      for (const [version, untilMs] of lost) if (untilMs <= nowMs) lost.delete(version);
      if (lost.size === 0) this.#lost.delete(key);
    }
  }
}
