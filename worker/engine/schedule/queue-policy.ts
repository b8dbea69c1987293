import type { ParameterValue } from '../../../shared/infer/request.ts';
import {
  type ModelDynamicBatching,
  type ModelQueuePolicy,
  ModelQueuePolicy_TimeoutAction as TimeoutAction,
} from '../../../shared/proto/generated/model_config_pb.ts';

/** The rules for the requests of one priority level. */
export interface LevelPolicy {
  /** Most requests that may wait in the level; Infinity for no bound of its own. */
  readonly maxQueueSize: number;
  /** How long a request may wait, in ms; Infinity for as long as its deadline allows. */
  readonly timeoutMs: number;
  /** Whether a request may ask for a shorter time. */
  readonly allowsOverride: boolean;
  /** A request whose time is over is moved behind the others instead of refused. */
  readonly delays: boolean;
}

/** What a model's config says about its queue, beside the forming of batches. */
export interface QueuePolicy {
  /** Levels from 1, the most urgent, up to this. */
  readonly levels: number;
  /** Of requests that name no level, or none that exists. */
  readonly defaultLevel: number;
  /** Of levels without rules of their own. */
  readonly defaultPolicy: LevelPolicy;
  readonly policies: ReadonlyMap<number, LevelPolicy>;
  /** A request can be overtaken: there are levels, or requests are moved behind others. */
  readonly reorders: boolean;
}

const NO_LIMITS: LevelPolicy = { maxQueueSize: Infinity, timeoutMs: Infinity, allowsOverride: false, delays: false };

/** undefined where the config asks for nothing but first in, first out. It has been validated. */
export function queuePolicyOf(batching: ModelDynamicBatching): QueuePolicy | undefined {
  const levels = Math.max(1, Number(batching.priorityLevels));
  const defaultPolicy = levelPolicyOf(batching.defaultQueuePolicy);
  const policies = new Map<number, LevelPolicy>();
  if (batching.priorityLevels > 0n) {
    for (const [level, policy] of Object.entries(batching.priorityQueuePolicy)) {
      policies.set(Number(level), levelPolicyOf(policy));
    }
  }
  const all = policies.size < levels ? [defaultPolicy, ...policies.values()] : [...policies.values()];
  if (levels === 1 && all.every((policy) => policy.maxQueueSize === Infinity && policy.timeoutMs === Infinity)) {
    return undefined;
  }
  return {
    levels,
    defaultLevel: Math.max(1, Number(batching.defaultPriorityLevel)),
    defaultPolicy,
    policies,
    reorders: levels > 1 || all.some((policy) => policy.delays && policy.timeoutMs < Infinity),
  };
}

function levelPolicyOf(policy: ModelQueuePolicy | undefined): LevelPolicy {
  if (!policy) return NO_LIMITS;
  const { maxQueueSize, defaultTimeoutMicroseconds, allowTimeoutOverride, timeoutAction } = policy;
  return {
    maxQueueSize: maxQueueSize === 0 ? Infinity : maxQueueSize,
    timeoutMs: defaultTimeoutMicroseconds === 0n ? Infinity : Number(defaultTimeoutMicroseconds) / 1000,
    allowsOverride: allowTimeoutOverride,
    delays: timeoutAction === TimeoutAction.DELAY,
  };
}

/** The level of a request of that priority, where 0 stands for the default. */
export function levelOf(policy: QueuePolicy, priority: number): number {
  return priority >= 1 && priority <= policy.levels ? priority : policy.defaultLevel;
}

export function policyOfLevel(policy: QueuePolicy, level: number): LevelPolicy {
  return policy.policies.get(level) ?? policy.defaultPolicy;
}

/**
 * How long a request may wait, in ms. `given` is its parameter `timeout` in microseconds, which counts where the level
 * allows it and only to shorten: without a default there is nothing to shorten.
 */
export function queueTimeoutMs(policy: LevelPolicy, given: ParameterValue | undefined): number {
  if (!policy.allowsOverride || policy.timeoutMs === Infinity) return policy.timeoutMs;
  if (typeof given !== 'number' && typeof given !== 'bigint') return policy.timeoutMs;
  const givenMs = Number(given) / 1000;
  return givenMs > 0 && givenMs < policy.timeoutMs ? givenMs : policy.timeoutMs;
}
