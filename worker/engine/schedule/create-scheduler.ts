import type { ModelConfig, ModelDynamicBatching } from '../../../shared/proto/generated/model_config_pb.ts';
import type { BatchLimits } from './batch-policy.ts';
import type { BatchTuner } from './batch-tuner.ts';
import { DirectScheduler } from './direct-scheduler.ts';
import { DynamicBatchScheduler } from './dynamic-batch-scheduler.ts';
import { queuePolicyOf } from './queue-policy.ts';
import type { Scheduler, SchedulerOptions } from './scheduler.ts';

/** What a load has found out about a model's batches, in the place of what its config says. */
export interface Batching {
  readonly limits: BatchLimits;
  /** Changes the limits while the model runs. */
  readonly tuner?: BatchTuner | undefined;
}

/**
 * Dynamic batching where the config asks for it and there is something to merge, or a queue policy to keep; else one
 * request, one run. The config has been normalised and validated.
 */
export function createScheduler(
  config: ModelConfig,
  options: Omit<SchedulerOptions, 'preserveOrdering'>,
  measured?: Batching,
): Scheduler {
  const choice = config.schedulingChoice;
  if (choice.case !== 'dynamicBatching') return new DirectScheduler({ ...options, preserveOrdering: false });
  const batching = choice.value;
  const { limits, tuner } = measured ?? { limits: batchLimitsOf(batching, options.plan.maxRows) };
  const policy = queuePolicyOf(batching);
  const all = { ...options, preserveOrdering: batching.preserveOrdering };
  if (limits.maxRows < 2 && !policy && !tuner) return new DirectScheduler(all);
  return new DynamicBatchScheduler(all, limits, policy, tuner);
}

/** What a config says. A model that turned out to be unable to batch takes fewer rows. */
export function batchLimitsOf(
  { preferredBatchSize, maxQueueDelayMicroseconds }: ModelDynamicBatching,
  maxRows: number,
): BatchLimits {
  const preferred = preferredBatchSize.filter((rows) => rows <= maxRows);
  return {
    maxRows,
    preferredRows: [...new Set(preferred)].sort((a, b) => a - b),
    delayMs: Number(maxQueueDelayMicroseconds) / 1000,
  };
}
