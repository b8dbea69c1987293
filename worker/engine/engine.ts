import { InferError } from '../../shared/errors.ts';
import type { Call } from '../../shared/infer/call.ts';
import type { ModelStats } from '../../shared/infer/model-stats.ts';
import type { Dispatcher, InferFn, ModelCatalog } from '../../shared/infer/ports.ts';
import type { InferRequest } from '../../shared/infer/request.ts';
import type { ModelLifecycle } from './model-lifecycle.ts';
import type { ServedModel } from './repository/load-version.ts';
import type { DeadlineSweep } from './schedule/deadline-sweep.ts';

/**
 * Turns requests into responses inside this process: finds the model, hands the request to its scheduler. It is a
 * Dispatcher, so that the service in front can use it as it uses the queue.
 */
export class Engine implements Dispatcher {
  readonly catalog: ModelCatalog;
  readonly #models: ReadonlyMap<string, ModelLifecycle>;
  readonly #deadlines: DeadlineSweep;
  #closing = false;

  /** `models` by name, in the order of their names. */
  constructor(models: ReadonlyMap<string, ModelLifecycle>, deadlines: DeadlineSweep) {
    this.#models = models;
    this.#deadlines = deadlines;
    this.catalog = {
      resolve: (name, version) => this.#find(name, version).ready,
      list: () => [...models.values()].flatMap((model) => model.states()),
      ready: () => [...models.values()].every((model) => model.ready()),
    };
  }

  readonly infer: InferFn = (request: InferRequest, call: Call) => {
    try {
      return this.#find(request.model, request.version).scheduler.enqueue(request, call);
    } catch (error) {
      return Promise.reject(InferError.from(error));
    }
  };

  ready(): { ok: true } | { ok: false; reason: string } {
    return this.#closing ? { ok: false, reason: 'the server is shutting down' } : { ok: true };
  }

  pending(model: string, version: string): number {
    return this.#models.get(model)?.pending(version) ?? 0;
  }

  /** One for each model version that can be called, by name and version. */
  stats(): readonly ModelStats[] {
    return [...this.#models.values()].flatMap((model) => model.served().map((served) => served.stats));
  }

  async close(graceMs: number): Promise<void> {
    this.#closing = true;
    await Promise.all([...this.#models.values()].map((model) => model.close(graceMs)));
    this.#deadlines.close();
  }

  #find(name: string, version: string): ServedModel {
    const model = this.#models.get(name);
    if (!model) throw new InferError('NOT_FOUND', `Request for unknown model: '${name}' is not found`);
    return model.find(version);
  }
}
