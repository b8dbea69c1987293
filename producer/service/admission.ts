import { InferError } from '../../shared/errors.ts';
import type { Pace } from './pace.ts';

export interface AdmissionSettings {
  readonly maxRequestsInFlight: number;
  /** Bytes of request bodies being read, of tensors being inferred, and of large answers being sent. */
  readonly maxBytesInFlight: number;
}

/**
 * How much this process has in hand. Full means refuse: whoever comes beyond the limits is told so at once, so that the
 * others are still served in time and memory has a bound.
 */
export class Admission {
  readonly #settings: AdmissionSettings;
  readonly #pace: Pace | undefined;
  #requests = 0;
  #bytes = 0;

  /** @param pace tells those who are refused when to come again */
  constructor(settings: AdmissionSettings, pace?: Pace) {
    this.#settings = settings;
    this.#pace = pace;
  }

  get requestsInFlight(): number {
    return this.#requests;
  }

  get bytesInFlight(): number {
    return this.#bytes;
  }

  /**
   * Takes a permit for one request. The caller gives it back with `leave` and the same number.
   * @throws InferError RESOURCE_EXHAUSTED with the figures.
   */
  enter(byteLength: number): void {
    const { maxRequestsInFlight } = this.#settings;
    if (this.#requests >= maxRequestsInFlight) {
      throw this.#busy(`${this.#requests} of ${maxRequestsInFlight} requests are in flight`, 1);
    }
    this.reserve(byteLength);
    this.#requests++;
  }

  leave(byteLength: number): void {
    this.#requests--;
    this.#bytes -= byteLength;
  }

  /**
   * Counts bytes that are about to be held. The caller gives them back with `release`.
   * @throws InferError RESOURCE_EXHAUSTED with the figures.
   */
  reserve(byteLength: number): void {
    const { maxBytesInFlight } = this.#settings;
    if (this.#bytes + byteLength > maxBytesInFlight) {
      const excess = this.#bytes + byteLength - maxBytesInFlight;
      throw this.#busy(
        `${this.#bytes} of ${maxBytesInFlight} bytes are in flight, no room for ${byteLength} more`,
        Math.ceil((excess * this.#requests) / Math.max(1, this.#bytes)),
      );
    }
    this.#bytes += byteLength;
  }

  /** Counts bytes that are there already, such as an answer; may pass the limit, so that the next one is refused. */
  hold(byteLength: number): void {
    this.#bytes += byteLength;
  }

  release(byteLength: number): void {
    this.#bytes -= byteLength;
  }

  #busy(what: string, first: number): InferError {
    return new InferError('RESOURCE_EXHAUSTED', `the server is busy: ${what}; try again later`, {
      retryAfterMs: this.#pace?.retryAfterMs(Math.max(1, first)),
    });
  }
}
