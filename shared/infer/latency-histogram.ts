/** How many durations lie below each of some bounds. Recording allocates nothing. */
export class LatencyHistogram {
  /** In ms, ascending. */
  readonly boundsMs: readonly number[];
  readonly #inBucket: number[];
  #count = 0;
  #sumMs = 0;

  constructor(boundsMs: readonly number[]) {
    this.boundsMs = boundsMs;
    this.#inBucket = boundsMs.map(() => 0);
  }

  record(ms: number): void {
    this.#count += 1;
    this.#sumMs += ms;
    for (let i = 0; i < this.boundsMs.length; i += 1) {
      if (ms > (this.boundsMs[i] ?? Infinity)) continue;
      this.#inBucket[i] = (this.#inBucket[i] ?? 0) + 1;
      return;
    }
  }

  get count(): number {
    return this.#count;
  }

  get sumMs(): number {
    return this.#sumMs;
  }

  /** By bound: how many were at most that long. */
  cumulative(): number[] {
    let sum = 0;
    return this.#inBucket.map((count) => (sum += count));
  }
}
