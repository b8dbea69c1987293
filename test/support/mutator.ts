/** Changes bytes at random, the same way for the same seed. */
export class Mutator {
  readonly #tokens: readonly Uint8Array[];
  #state: number;

  /** @param tokens what is put in whole, because random bytes would hardly ever make it */
  constructor(seed: number, tokens: readonly Uint8Array[]) {
    this.#state = seed >>> 0;
    this.#tokens = tokens;
  }

  /** From 0 up to but not including `bound` (mulberry32). */
  integer(bound: number): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % bound;
  }

  pick<T>(list: readonly T[]): T {
    return list[this.integer(list.length)]!;
  }

  /** The bytes with one to four changes. */
  mutate(bytes: Uint8Array): Buffer {
    let changed = Buffer.from(bytes);
    for (let changes = 1 + this.integer(4); changes > 0; changes--) changed = this.#change(changed);
    return changed;
  }

  #change(bytes: Buffer): Buffer<ArrayBuffer> {
    const at = this.integer(bytes.length + 1);
    const end = Math.min(bytes.length, at + 1 + this.integer(16));
    const before = bytes.subarray(0, at);
    switch (this.integer(7)) {
      case 0: // one bit
        return Buffer.concat([
          before,
          Buffer.from(bytes.subarray(at, at + 1)).map((byte) => byte ^ (1 << this.integer(8))),
          bytes.subarray(at + 1),
        ]);
      case 1: // cut off
        return Buffer.from(before);
      case 2: // something left out
        return Buffer.concat([before, bytes.subarray(end)]);
      case 3: // something twice
        return Buffer.concat([bytes.subarray(0, end), bytes.subarray(at)]);
      case 4: // something strange
        return Buffer.concat([before, Buffer.of(this.integer(256), this.integer(256)), bytes.subarray(at)]);
      case 5: // a token in between
        return Buffer.concat([before, this.pick(this.#tokens), bytes.subarray(at)]);
      default: // a token instead
        return Buffer.concat([before, this.pick(this.#tokens), bytes.subarray(end)]);
    }
  }
}
