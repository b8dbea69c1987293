import type { InferResponse } from '../../../shared/infer/response.ts';

/** A response whose memory can be given back. A copy made by `{ ...response }` has no `free`, as it comes from the class. */
export class LargeResponse implements InferResponse {
  readonly model: InferResponse['model'];
  readonly version: InferResponse['version'];
  readonly outputs: InferResponse['outputs'];
  readonly parameters: InferResponse['parameters'];
  readonly timings: InferResponse['timings'];
  readonly identity: InferResponse['identity'];
  readonly #free: () => void;

  constructor({ model, version, outputs, parameters, timings, identity }: InferResponse, free: () => void) {
    this.model = model;
    this.version = version;
    this.outputs = outputs;
    this.parameters = parameters;
    this.timings = timings;
    this.identity = identity;
    this.#free = free;
  }

  free(): void {
    this.#free();
  }
}
