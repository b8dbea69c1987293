import { InferError } from '../../shared/errors.ts';
import type { Call } from '../../shared/infer/call.ts';
import { ModelStats } from '../../shared/infer/model-stats.ts';
import type { Dispatcher } from '../../shared/infer/ports.ts';
import { type InferRequest, rowsOf } from '../../shared/infer/request.ts';
import type { InferResponse } from '../../shared/infer/response.ts';
import { assertRequestFits } from '../../shared/infer/validate-request.ts';

/**
 * Checks requests before they travel and counts what their clients see, as the engine does in its own process: the parts of the time travel
 * back with each answer, and of the requests that ran together one carries the execution.
 */
export class CountingDispatcher implements Dispatcher {
  readonly #inner: Dispatcher;
  readonly #stats = new Map<string, ModelStats>();

  constructor(inner: Dispatcher) {
    this.#inner = inner;
  }

  get catalog(): Dispatcher['catalog'] {
    return this.#inner.catalog;
  }

  get control(): Dispatcher['control'] {
    return this.#inner.control;
  }

  wake(model: string): Promise<void> | undefined {
    return this.#inner.wake(model);
  }

  readonly infer = async (request: InferRequest, call: Call): Promise<InferResponse> => {
    const model = this.#inner.catalog.resolve(request.model, request.version);
    assertRequestFits(model, request);
    try {
      const response = await this.#inner.infer(request, call);
      const rows = rowsOf(model.maxBatchSize > 0, request.inputs);
      // While workers change over, another version may have answered than the one that was looked up here.
      const stats = this.statsOf(model.name, response.version);
      stats.recordSuccess(rows, (performance.now() - call.arrivalMs) * 1000, response.timings);
      for (const step of response.steps ?? []) {
        this.statsOf(step.model, step.version).recordSuccess(step.rows, step.requestUs, step.timings);
      }
      return response;
    } catch (error) {
      const stats = this.statsOf(model.name, model.version);
      stats.recordFailure(InferError.from(error), (performance.now() - call.arrivalMs) * 1000);
      throw error;
    }
  };

  /** One for each model version that can be called now or was called before, so that every series is there from the start. */
  stats(): Iterable<ModelStats> {
    for (const state of this.#inner.catalog.list()) {
      if (state.state === 'READY' && state.version !== undefined) this.statsOf(state.name, state.version);
    }
    return this.#stats.values();
  }

  ready(): ReturnType<Dispatcher['ready']> {
    return this.#inner.ready();
  }

  pending(model: string, version: string): number {
    return this.#inner.pending(model, version);
  }

  close(graceMs: number): Promise<void> {
    return this.#inner.close(graceMs);
  }

  statsOf(model: string, version: string): ModelStats {
    const key = `${model}/${version}`;
    let stats = this.#stats.get(key);
    if (!stats) {
      stats = new ModelStats(model, version);
      this.#stats.set(key, stats);
    }
    return stats;
  }
}
