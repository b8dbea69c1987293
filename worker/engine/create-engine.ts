import { availableParallelism } from 'node:os';
import { DEFAULT_MAX_BATCH_SIZE } from '../../shared/model/complete-config.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import { systemClock } from '../../shared/runtime/clock.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { Engine } from './engine.ts';
import { RateLimiter } from './execute/rate-limiter.ts';
import { RunSlots } from './execute/run-slots.ts';
import type { Backend } from './instance/instance.ts';
import type { LoadContext } from './repository/load-version.ts';
import { type ControlMode, ModelRepository } from './repository/model-repository.ts';
import { DeadlineSweep } from './schedule/deadline-sweep.ts';

const DEFAULT_MAX_QUEUE_SIZE = 4096;
const DEFAULT_POLL_MS = 15_000;
const DEFAULT_UNLOAD_GRACE_MS = 300_000;

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
  /**
   * Runs are limited by `rate_limiter` of the instance groups, and of these resources there is so much; without any, of
   * each what the hungriest instance takes. Default: `rate_limiter` means nothing.
   */
  readonly rateLimits?: ReadonlyMap<string, number>;
  /** Default `none`: all models are loaded at start and stay as they are. */
  readonly controlMode?: ControlMode;
  /** In mode `explicit` the models to load at start, `*` for all. Default none. */
  readonly loadAtStart?: readonly string[];
  /** In mode `poll` how often the folders are looked at, in ms. Default 15,000. */
  readonly pollMs?: number;
  /** `configs/<name>.pbtxt` of a model is read instead of config.pbtxt, where it is there. */
  readonly configName?: string;
  /** Whether what a config leaves out is completed from the model file. Default true. */
  readonly autoComplete?: boolean;
  /** What completion sets for a model that can batch, in rows. Default 4, as in Triton. */
  readonly defaultMaxBatchSize?: number;
  /** In mode `explicit`: whether a request for a model that nobody has loaded loads it. Default false. */
  readonly onDemand?: boolean;
  /** Bytes of model files that may be loaded at once. Default Infinity. */
  readonly budgetBytes?: number;
  /** Whether models with `response_cache` get an identity, which takes reading all their files. Default false. */
  readonly identities?: boolean;
  /** How long requests in hand may take when their model is unloaded or replaced, in ms. Default 300,000. */
  readonly unloadGraceMs?: number;
}

/**
 * Loads the models of the repositories, all of them unless the mode says otherwise. A model that cannot be loaded is
 * UNAVAILABLE with its reason and stops nothing else.
 * @throws InferError NOT_FOUND when a repository cannot be read.
 */
export async function createEngine(options: EngineOptions): Promise<Engine> {
  const clock = options.clock ?? systemClock;
  const deadlines = new DeadlineSweep(clock);
  const slots = options.instanceSlots ?? availableParallelism();
  const context: LoadContext = {
    backend: options.backend,
    clock,
    logger: options.logger,
    slots: new RunSlots(slots),
    limiter: options.rateLimits && new RateLimiter(slots, options.rateLimits),
    deadlines,
    maxQueueSize: options.maxQueueSize ?? DEFAULT_MAX_QUEUE_SIZE,
    autoComplete: options.autoComplete ?? true,
    defaultMaxBatchSize: options.defaultMaxBatchSize ?? DEFAULT_MAX_BATCH_SIZE,
    identities: options.identities ?? false,
  };
  const repository = new ModelRepository({
    repositories: options.repositories,
    mode: options.controlMode ?? 'none',
    loadAtStart: options.loadAtStart ?? [],
    pollMs: options.pollMs ?? DEFAULT_POLL_MS,
    unloadGraceMs: options.unloadGraceMs ?? DEFAULT_UNLOAD_GRACE_MS,
    onDemand: options.onDemand ?? false,
    budgetBytes: options.budgetBytes ?? Infinity,
    ...(options.configName !== undefined && { configName: options.configName }),
    context,
    logger: options.logger,
  });
  await repository.start();
  return new Engine(repository, deadlines);
}
