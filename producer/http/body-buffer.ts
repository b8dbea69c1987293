import { InferError } from '../../shared/errors.ts';
import { Pieces } from '../../shared/tensor/pieces.ts';
import type { Admission } from '../service/admission.ts';
import { alignedBuffer } from './aligned-buffer.ts';

/** Chunks smaller than this on average are joined as they come: a million one-byte buffers would cost 100 MB. */
const SMALL_CHUNK_BYTES = 4096;
const JOIN_EVERY = 1024;

/** A smaller body is joined: that costs less than to look after its pieces. */
const PIECED_BYTES = 64 * 1024;

/**
 * Memory for a whole body is taken once this part of it is there, so that a client that announces much and sends little
 * cannot hold much.
 */
const TRUSTED_PART = 1 / 8;

/** What a body may hold. */
export interface BodyLimits {
  readonly maxBytes: number;
  /** Counts what is held as bytes in flight. */
  readonly admission: Admission;
  readonly tooLarge: (maxBytes: number) => Error;
  /** How long the body will be, when that is known; it cannot become longer. */
  readonly expectedBytes?: number;
  /** The chunks stay where they are; see `pieces`. */
  readonly inPieces?: boolean;
}

/**
 * The chunks of a body as they come, and the whole body at the end. One that came in one piece is not copied. Where the
 * length is known, chunks are copied to their place as they come and need not be kept: what lives for a short time costs
 * the garbage collector little, and a large body is never there twice.
 */
export class BodyBuffer {
  readonly #limits: BodyLimits;
  #byteLength = 0;
  #joined: Buffer[] = [];
  #recent: Buffer[] = [];
  #recentBytes = 0;
  /** The whole body, filled as far as chunks have come. */
  #whole: Buffer | undefined;

  constructor(limits: BodyLimits) {
    this.#limits = limits;
  }

  /** Returns why the chunk was not taken; undefined when it was. */
  push(chunk: Buffer): Error | undefined {
    const { maxBytes, admission, tooLarge } = this.#limits;
    if (this.#byteLength + chunk.length > maxBytes) return tooLarge(maxBytes);
    try {
      admission.reserve(chunk.length);
    } catch (error) {
      return InferError.from(error);
    }
    if (this.#whole) chunk.copy(this.#whole, this.#byteLength);
    else this.#keep(chunk);
    this.#byteLength += chunk.length;
    return undefined;
  }

  /** The bytes are no longer counted. To be called once, when the body has been handed over or given up. */
  release(): void {
    this.#limits.admission.release(this.#byteLength);
  }

  join(): Buffer {
    if (this.#whole) return this.#whole.subarray(0, this.#byteLength);
    const [first] = this.#recent;
    if (this.#joined.length === 0 && this.#recent.length === 1 && first) return first;
    return this.#copyInto(alignedBuffer(this.#byteLength));
  }

  /** The whole body: its chunks as they came, or one buffer where they are few or small. */
  pieces(): Buffer | Pieces {
    const parts = [...this.#joined, ...this.#recent];
    return this.#byteLength < parts.length * SMALL_CHUNK_BYTES || this.#byteLength < PIECED_BYTES
      ? this.join()
      : new Pieces(parts, this.#byteLength);
  }

  #keep(chunk: Buffer): void {
    const { expectedBytes = Infinity, inPieces = false } = this.#limits;
    this.#recent.push(chunk);
    this.#recentBytes += chunk.length;
    const total = this.#byteLength + chunk.length;
    if (!inPieces && total < expectedBytes && total >= expectedBytes * TRUSTED_PART) {
      this.#whole = this.#copyInto(alignedBuffer(expectedBytes));
      this.#joined = [];
      this.#recent = [];
    } else if (this.#recent.length === JOIN_EVERY) this.#settle();
  }

  #copyInto(target: Buffer): Buffer {
    let offset = 0;
    for (const parts of [this.#joined, this.#recent]) for (const part of parts) offset += part.copy(target, offset);
    return target;
  }

  #settle(): void {
    if (this.#recentBytes < SMALL_CHUNK_BYTES * JOIN_EVERY) this.#joined.push(Buffer.concat(this.#recent));
    else this.#joined = this.#joined.concat(this.#recent);
    this.#recent = [];
    this.#recentBytes = 0;
  }
}
