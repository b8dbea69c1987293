import type { ModelStats } from '../../../shared/infer/model-stats.ts';
import type { InferFn, ModelCatalog } from '../../../shared/infer/ports.ts';
import type { Call } from '../../../shared/infer/call.ts';
import type { InferRequest } from '../../../shared/infer/request.ts';
import type { InferResponse } from '../../../shared/infer/response.ts';
import type { ReadyModel } from '../../../shared/model/ready-model.ts';
import type { Clock } from '../../../shared/runtime/clock.ts';
import { totalBytesOf } from '../../../shared/tensor/tensor.ts';
import { type Answer, Flight } from './flight.ts';
import { requestKey } from './request-key.ts';
import type { ResponseStore } from './response-store.ts';

export interface ResponseCacheOptions {
  readonly store: ResponseStore;
  readonly catalog: Pick<ModelCatalog, 'resolve'>;
  /** @throws InferError for a version that cannot be called any more */
  readonly statsOf: (model: string, version: string) => ModelStats;
  readonly clock: Clock;
}

/**
 * Answers requests of models with an identity from a store where it can, and runs equal ones that are in flight once. An
 * answer is kept only when the model that gave it is the one that it was looked up for: while a model is replaced, here or
 * on one worker of a pool after the other, both may run. Errors are never kept.
 */
export function withResponseCache(options: ResponseCacheOptions, next: InferFn): InferFn {
  const cache = new ResponseCache(options, next);
  return (request, call) => {
    const model = keptModel(options.catalog, request);
    return model ? cache.infer(model, request, call) : next(request, call);
  };
}

/** More are not hashed, which takes the event loop about a millisecond per MiB: the neighbours would wait. */
const MAX_INPUT_BYTES = 16 * 1024 * 1024;

/** undefined where answers are not kept, and for a model that cannot be called, which `next` says better. */
function keptModel(catalog: Pick<ModelCatalog, 'resolve'>, request: InferRequest): ReadyModel | undefined {
  try {
    const ready = catalog.resolve(request.model, request.version);
    if (ready.identity === undefined) return undefined;
    return totalBytesOf(request.inputs) > MAX_INPUT_BYTES ? undefined : ready;
  } catch {
    return undefined;
  }
}

class ResponseCache {
  readonly #options: ResponseCacheOptions;
  readonly #next: InferFn;
  readonly #flights = new Map<string, Flight>();

  constructor(options: ResponseCacheOptions, next: InferFn) {
    this.#options = options;
    this.#next = next;
  }

  async infer(model: ReadyModel, request: InferRequest, call: Call): Promise<InferResponse> {
    const { clock, store } = this.#options;
    const startMs = clock.now();
    const key = requestKey(model, request);
    let flight = this.#flights.get(key);
    let lookupMs = clock.now() - startMs;
    let answer: Answer;
    if (flight) answer = await flight.join(request, call);
    else {
      const found = store.get(key);
      lookupMs = clock.now() - startMs;
      if (found && !(found instanceof Promise)) answer = { response: found, ran: false };
      else {
        flight = this.#open(model, key, found, lookupMs);
        answer = await flight.join(request, call);
      }
    }
    if (!answer.ran) this.#recordHit(answer.response, call, lookupMs);
    return answer.response;
  }

  #open(
    model: ReadyModel,
    key: string,
    found: Promise<InferResponse | undefined> | undefined,
    lookupMs: number,
  ): Flight {
    let lookup = found;
    const find = async (request: InferRequest, call: Call): Promise<Answer> => {
      const { clock } = this.#options;
      const startMs = clock.now();
      const kept = await lookup;
      lookup = undefined;
      if (kept) return { response: kept, ran: false };
      if (call.error) throw call.error;
      const missMs = lookupMs + clock.now() - startMs;
      const response = await this.#next(request, call);
      this.#keep(model, key, response, missMs);
      return { response, ran: true };
    };
    const flight: Flight = new Flight(find, this.#options.clock, () => {
      if (this.#flights.get(key) === flight) this.#flights.delete(key);
    });
    this.#flights.set(key, flight);
    return flight;
  }

  #keep({ identity }: ReadyModel, key: string, response: InferResponse, missMs: number): void {
    const { clock, store } = this.#options;
    const startMs = clock.now();
    if (response.identity === identity) store.put(key, response);
    this.#record(response, (stats) => stats.recordCacheMiss((missMs + clock.now() - startMs) * 1000));
  }

  #recordHit(response: InferResponse, call: Call, lookupMs: number): void {
    const requestUs = (this.#options.clock.now() - call.arrivalMs) * 1000;
    this.#record(response, (stats) => stats.recordCacheHit(requestUs, lookupMs * 1000));
  }

  #record({ model, version }: InferResponse, record: (stats: ModelStats) => void): void {
    let stats: ModelStats;
    try {
      stats = this.#options.statsOf(model, version);
    } catch {
      return; // it was unloaded meanwhile, and its statistics with it
    }
    record(stats);
  }
}
