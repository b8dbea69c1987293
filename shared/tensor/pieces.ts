import { freeMemory } from './free-memory.ts';

/**
 * Bytes that came in several pieces and lie where they came. Whoever merges them into other memory takes them from there,
 * which is the only copy; whoever wants them as one has them joined, once.
 */
export class Pieces {
  readonly length: number;
  #parts: readonly Buffer[];
  /** The whole, once somebody has asked for it; then the parts are given up. */
  #whole: Buffer | undefined;

  /** @param length of all parts together, in bytes */
  constructor(parts: readonly Buffer[], length: number) {
    this.#parts = parts;
    this.length = length;
  }

  get isJoined(): boolean {
    return this.#whole !== undefined;
  }

  /** A buffer that begins with the first `length` bytes and may go on; a copy only where they span pieces. */
  front(length: number): Buffer {
    const first = this.#whole ?? this.#parts[0];
    return first && first.length >= length ? first : joinedOf(this.subarray(0, length));
  }

  /** A view: plain memory where the range lies in one piece, else pieces again. */
  subarray(from: number, to: number): Buffer | Pieces {
    if (this.#whole) return this.#whole.subarray(from, to);
    const parts: Buffer[] = [];
    let offset = 0;
    for (const part of this.#parts) {
      if (offset >= to) break;
      if (offset + part.length > from) parts.push(part.subarray(Math.max(0, from - offset), to - offset));
      offset += part.length;
    }
    return parts.length === 1 && parts[0] ? parts[0] : new Pieces(parts, to - from);
  }

  copyTo(target: Uint8Array, offset: number): void {
    for (const part of this.#whole ? [this.#whole] : this.#parts) {
      target.set(part, offset);
      offset += part.length;
    }
  }

  /** All bytes in one, aligned for every datatype. Every call gives the same memory. */
  join(): Buffer {
    if (this.#whole) return this.#whole;
    const whole = Buffer.allocUnsafeSlow(this.length);
    this.copyTo(whole, 0);
    this.#giveUpParts();
    return (this.#whole = whole);
  }

  /** As `freeMemory`: the bytes are gone for everybody. */
  free(): void {
    this.#giveUpParts();
    if (this.#whole) freeMemory(this.#whole);
    this.#whole = Buffer.alloc(0);
  }

  /** A part that is a piece of its memory may have a neighbour in it, which belongs to somebody else. */
  #giveUpParts(): void {
    for (const part of this.#parts) if (part.byteLength === part.buffer.byteLength) freeMemory(part);
    this.#parts = [];
  }
}

/** The bytes as one buffer; see `Pieces.join`. */
export function joinedOf(bytes: Buffer | Pieces): Buffer {
  return bytes instanceof Pieces ? bytes.join() : bytes;
}
