import { InferError } from '../../shared/errors.ts';
import type { Call } from '../../shared/infer/call.ts';
import { ModelStats } from '../../shared/infer/model-stats.ts';
import { type Dispatcher, UNLOADED } from '../../shared/infer/ports.ts';
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
      if (response.version === model.version) stats.describe(model.config);
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

  /** One for each model version that can be called, or could be if a worker was there; none for one that was unloaded. */
  *stats(): Iterable<ModelStats> {
    for (const { name, version, state, reason, loadSeconds, batching } of this.#inner.catalog.list()) {
      if (version === undefined || reason === UNLOADED) continue;
      if (state !== 'READY' && !this.#stats.has(keyOf(name, version))) continue;
      const stats = this.statsOf(name, version);
      stats.loadSeconds = loadSeconds ?? stats.loadSeconds;
      if (state === 'READY') stats.batching = batching;
      if (state === 'READY') this.#describe(stats);
      yield stats;
    }
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

  #describe(stats: ModelStats): void {
    try {
      stats.describe(this.#inner.catalog.resolve(stats.model, stats.version).config);
    } catch {
      // Announced, and its description has not come yet: the next reading has it.
    }
  }

  statsOf(model: string, version: string): ModelStats {
    const key = keyOf(model, version);
    let stats = this.#stats.get(key);
    if (!stats) {
      stats = new ModelStats(model, version);
      this.#stats.set(key, stats);
    }
    return stats;
  }
}

function keyOf(model: string, version: string): string {
  return `${model}/${version}`;
}
