import { InferError } from '../../shared/errors.ts';
import type { Call } from '../../shared/infer/call.ts';
import { controlRefused, NotServed } from '../../shared/infer/not-served.ts';
import type { ModelStats } from '../../shared/infer/model-stats.ts';
import type { Dispatcher, InferFn, ModelCatalog, ModelControl } from '../../shared/infer/ports.ts';
import type { InferRequest } from '../../shared/infer/request.ts';
import type { ModelRepository, Turns } from './repository/model-repository.ts';
import type { DeadlineSweep } from './schedule/deadline-sweep.ts';

const SHUTTING_DOWN = 'the server is shutting down';

/**
 * Turns requests into responses inside this process: finds the model, hands the request to its scheduler. It is a
 * Dispatcher, so that the service in front can use it as it uses the queue.
 */
export class Engine implements Dispatcher {
  readonly catalog: ModelCatalog;
  readonly control: ModelControl;
  readonly #repository: ModelRepository;
  readonly #deadlines: DeadlineSweep;
  #closing = false;

  constructor(repository: ModelRepository, deadlines: DeadlineSweep) {
    this.#repository = repository;
    this.#deadlines = deadlines;
    this.catalog = {
      resolve: (name, version) => repository.find(name, version).ready,
      list: () => repository.states(),
      ready: () => repository.models().every((model) => model.ready()),
    };
    this.control = {
      load: async (model, override) => {
        this.#assertControl(model, 'load');
        await repository.load(model, override);
      },
      unload: async (model, dependents) => {
        this.#assertControl(model, 'unload');
        await repository.unload(model, dependents);
      },
    };
  }

  readonly infer: InferFn = (request: InferRequest, call: Call) => {
    try {
      if (this.#closing) throw new NotServed('UNAVAILABLE', SHUTTING_DOWN);
      return this.#repository.find(request.model, request.version).scheduler.enqueue(request, call);
    } catch (error) {
      return Promise.reject(InferError.from(error));
    }
  };

  wake(model: string): Promise<void> | undefined {
    return this.#repository.wake(model);
  }

  /** Whether models are loaded and unloaded by `control`. */
  get controlled(): boolean {
    return this.#repository.mode === 'explicit';
  }

  /** From now on replacing a model waits for its turn among the workers of a pool. */
  takeTurns(turns: Turns): void {
    this.#repository.takeTurns(turns);
  }

  ready(): { ok: true } | { ok: false; reason: string } {
    return this.#closing ? { ok: false, reason: SHUTTING_DOWN } : { ok: true };
  }

  pending(model: string, version: string): number {
    return this.#repository.model(model)?.pending(version) ?? 0;
  }

  /** @throws InferError NOT_FOUND or UNAVAILABLE for a version that cannot be called */
  statsOf(model: string, version: string): ModelStats {
    return this.#repository.find(model, version).stats;
  }

  /** One for each model version that can be called, by name and version. */
  stats(): readonly ModelStats[] {
    return this.#repository.models().flatMap((model) => model.served().map((served) => served.stats));
  }

  async close(graceMs: number): Promise<void> {
    this.#closing = true;
    await this.#repository.close(graceMs);
    this.#deadlines.close();
  }

  #assertControl(model: string, action: 'load' | 'unload'): void {
    if (!this.controlled) throw controlRefused(model, action, 'models are not controlled by requests here');
    if (this.#closing) throw new InferError('UNAVAILABLE', SHUTTING_DOWN);
  }
}
