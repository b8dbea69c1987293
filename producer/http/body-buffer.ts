import { InferError } from '../../shared/errors.ts';
import type { Admission } from '../service/admission.ts';

/** Chunks smaller than this on average are joined as they come: a million one-byte buffers would cost 100 MB. */
const SMALL_CHUNK_BYTES = 4096;
const JOIN_EVERY = 1024;

/** What a body may hold. */
export interface BodyLimits {
  readonly maxBytes: number;
  /** Counts what is held as bytes in flight. */
  readonly admission: Admission;
  readonly tooLarge: (maxBytes: number) => Error;
}

/** The chunks of a body as they come, and the whole body at the end. One that came in one piece is not copied. */
export class BodyBuffer {
  readonly #limits: BodyLimits;
  #byteLength = 0;
  #joined: Buffer[] = [];
  #recent: Buffer[] = [];
  #recentBytes = 0;

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
    this.#recent.push(chunk);
    this.#recentBytes += chunk.length;
    this.#byteLength += chunk.length;
    if (this.#recent.length === JOIN_EVERY) this.#settle();
    return undefined;
  }

  /** The bytes are no longer counted. To be called once, when the body has been handed over or given up. */
  release(): void {
    this.#limits.admission.release(this.#byteLength);
  }

  join(): Buffer {
    const [first] = this.#recent;
    if (this.#joined.length === 0 && this.#recent.length === 1 && first) return first;
    return Buffer.concat([...this.#joined, ...this.#recent], this.#byteLength);
  }

  #settle(): void {
    if (this.#recentBytes < SMALL_CHUNK_BYTES * JOIN_EVERY) this.#joined.push(Buffer.concat(this.#recent));
    else this.#joined = this.#joined.concat(this.#recent);
    this.#recent = [];
    this.#recentBytes = 0;
  }
}
