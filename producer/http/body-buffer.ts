/** Chunks smaller than this on average are joined as they come: a million one-byte buffers would cost 100 MB. */
const SMALL_CHUNK_BYTES = 4096;
const JOIN_EVERY = 1024;

/** The chunks of a body as they come, and the whole body at the end. One that came in one piece is not copied. */
export class BodyBuffer {
  byteLength = 0;
  #joined: Buffer[] = [];
  #recent: Buffer[] = [];
  #recentBytes = 0;

  push(chunk: Buffer): void {
    this.#recent.push(chunk);
    this.#recentBytes += chunk.length;
    this.byteLength += chunk.length;
    if (this.#recent.length === JOIN_EVERY) this.#settle();
  }

  join(): Buffer {
    const [first] = this.#recent;
    if (this.#joined.length === 0 && this.#recent.length === 1 && first) return first;
    return Buffer.concat([...this.#joined, ...this.#recent], this.byteLength);
  }

  #settle(): void {
    if (this.#recentBytes < SMALL_CHUNK_BYTES * JOIN_EVERY) this.#joined.push(Buffer.concat(this.#recent));
    else this.#joined = this.#joined.concat(this.#recent);
    this.#recent = [];
    this.#recentBytes = 0;
  }
}
