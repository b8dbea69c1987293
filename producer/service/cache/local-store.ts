import type { InferResponse } from '../../../shared/infer/response.ts';
import { copyResponse } from './copy-response.ts';
import type { ResponseStore, StoreFigures } from './response-store.ts';

/**
 * What an entry takes beside the bytes of its tensors, measured on Node 20: key, slot in the map, response and the objects
 * of each output with its own memory.
 */
const ENTRY_BYTES = 640;
const OUTPUT_BYTES = 512;

interface Entry {
  readonly response: InferResponse;
  readonly bytes: number;
}

/** Answers in the memory of this process, at most so many bytes of them with all that belongs to them; the one that was not asked for longest goes first. */
export class LocalStore implements ResponseStore {
  readonly #maxBytes: number;
  /** The order of a map is that of insertion, so the first was used longest ago. */
  readonly #entries = new Map<string, Entry>();
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  get(key: string): InferResponse | undefined {
    const entry = this.#entries.get(key);
    if (!entry) return undefined;
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    return copyResponse(entry.response);
  }

  put(key: string, response: InferResponse): void {
    const bytes = bytesOf(response);
    if (bytes > this.#maxBytes) return;
    this.#drop(key);
    for (const oldest of this.#entries.keys()) {
      if (this.#bytes + bytes <= this.#maxBytes) break;
      this.#drop(oldest);
    }
    this.#entries.set(key, { response: copyResponse(response), bytes });
    this.#bytes += bytes;
  }

  figures(): StoreFigures {
    return { held: { entries: this.#entries.size, bytes: this.#bytes }, failures: 0 };
  }

  close(): Promise<void> {
    this.#entries.clear();
    this.#bytes = 0;
    return Promise.resolve();
  }

  #drop(key: string): void {
    const entry = this.#entries.get(key);
    if (!entry) return;
    this.#entries.delete(key);
    this.#bytes -= entry.bytes;
  }
}

/** What the answer will take in a store. */
export function bytesOf({ outputs, parameters }: InferResponse): number {
  let bytes = ENTRY_BYTES;
  for (const { data, shape } of outputs) bytes += OUTPUT_BYTES + shape.length * 8 + data.byteLength;
  for (const [name, value] of Object.entries(parameters)) bytes += 64 + (name.length + String(value).length) * 2;
  return bytes;
}
