/** Up to this a run is done on the event loop: the way to a thread and back takes longer. In ms. */
const SHORT_MS = 0.25;
/** The same where nothing else is in hand, which then only the next to come can wait for. */
const SHORT_ALONE_MS = 2;
/** After a run that took so long on the event loop, those of its size go to threads for good. In ms. */
const LONG_MS = 20;
/** What one long run has shown is forgotten by so much with each run. */
const FORGET = 0.95;

/** What runs of one size have taken, in ms. */
interface Seen {
  /** The shortest on a thread, the way there and back included. */
  threadMs: number;
  /** About the longest on the event loop; undefined before the first. */
  hereMs: number | undefined;
}

/**
 * Which runs of a model whose work follows from its shapes are short enough for the event loop. A thread takes 0.1 to
 * 0.5 ms to be woken and to wake this one again, where many models run for 0.05.
 */
export class ShortRuns {
  /** By the power of two that the bytes of all inputs come up to. */
  readonly #seen: Seen[] = [];

  /**
   * @param bytes of all inputs
   * @param alone nothing else is in hand
   */
  allows(bytes: number, alone: boolean): boolean {
    const seen = this.#seen[sizeClass(bytes)];
    if (!seen) return false; // the first run of a size shows what it takes
    return (seen.hereMs ?? seen.threadMs) <= (alone ? SHORT_ALONE_MS : SHORT_MS);
  }

  /** A run went well. @param here it was done on the event loop */
  note(bytes: number, ms: number, here: boolean): void {
    const seen = (this.#seen[sizeClass(bytes)] ??= { threadMs: Infinity, hereMs: undefined });
    if (here) seen.hereMs = ms > LONG_MS ? Infinity : Math.max(ms, (seen.hereMs ?? 0) * FORGET);
    else {
      seen.threadMs = Math.min(ms, seen.threadMs);
      if (seen.hereMs !== undefined) seen.hereMs *= FORGET;
    }
  }
}

function sizeClass(bytes: number): number {
  return 32 - Math.clz32(Math.min(bytes, 2 ** 31));
}
