import { availableParallelism } from 'node:os';
import type { Clock } from '../../shared/runtime/clock.ts';
import { systemClock } from '../../shared/runtime/clock.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { Engine } from './engine.ts';
import { RunSlots } from './execute/run-slots.ts';
import type { Backend } from './instance/instance.ts';
import { ModelLifecycle } from './model-lifecycle.ts';
import type { LoadContext } from './repository/load-version.ts';
import { scanRepositories } from './repository/scan-repositories.ts';
import { DeadlineSweep } from './schedule/deadline-sweep.ts';

const DEFAULT_MAX_QUEUE_SIZE = 4096;

export interface EngineOptions {
  /** Paths of model repositories in Triton's layout. */
  readonly repositories: readonly string[];
  readonly backend: Backend;
  readonly logger: Logger;
  readonly clock?: Clock;
  /** Most requests that may wait for one model version; more are refused. Default 4096. */
  readonly maxQueueSize?: number;
  /**
   * Most runs at once over all models. Each takes a thread of libuv's pool, so the pool has to be larger than this.
   * Default: one per processor.
   */
  readonly instanceSlots?: number;
}

/**
 * Loads every model of the repositories, one after the other. A model that cannot be loaded is UNAVAILABLE with its
 * reason and stops nothing else.
 * @throws InferError NOT_FOUND when a repository cannot be read.
 */
export async function createEngine(options: EngineOptions): Promise<Engine> {
  const clock = options.clock ?? systemClock;
  const deadlines = new DeadlineSweep(clock);
  const context: LoadContext = {
    backend: options.backend,
    clock,
    logger: options.logger,
    slots: new RunSlots(options.instanceSlots ?? availableParallelism()),
    deadlines,
    maxQueueSize: options.maxQueueSize ?? DEFAULT_MAX_QUEUE_SIZE,
  };
  const models = new Map<string, ModelLifecycle>();
  for (const folder of await scanRepositories(options.repositories, options.logger)) {
    const model = new ModelLifecycle(folder, options.logger);
    models.set(model.name, model);
    await model.load(context);
  }
  return new Engine(models, deadlines);
}
