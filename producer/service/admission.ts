import { InferError } from '../../shared/errors.ts';

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
  #requests = 0;
  #bytes = 0;

  constructor(settings: AdmissionSettings) {
    this.#settings = settings;
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
      throw new InferError(
        'RESOURCE_EXHAUSTED',
        `the server is busy: ${this.#requests} of ${maxRequestsInFlight} requests are in flight; try again later`,
      );
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
      throw new InferError(
        'RESOURCE_EXHAUSTED',
        `the server is busy: ${this.#bytes} of ${maxBytesInFlight} bytes are in flight, no room for ${byteLength} more; try again later`,
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
}
