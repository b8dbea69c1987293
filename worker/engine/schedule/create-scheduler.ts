import type { ModelConfig, ModelDynamicBatching } from '../../../shared/proto/generated/model_config_pb.ts';
import type { BatchLimits } from './batch-policy.ts';
import { DirectScheduler } from './direct-scheduler.ts';
import { DynamicBatchScheduler } from './dynamic-batch-scheduler.ts';
import { queuePolicyOf } from './queue-policy.ts';
import type { Scheduler, SchedulerOptions } from './scheduler.ts';

/**
 * Dynamic batching where the config asks for it and there is something to merge, or a queue policy to keep; else one
 * request, one run. The config has been normalised and validated.
 * @param options.waits false where the delay of the config would bring nothing
 */
export function createScheduler(
  config: ModelConfig,
  { waits = true, ...options }: Omit<SchedulerOptions, 'preserveOrdering'> & { readonly waits?: boolean },
): Scheduler {
  const choice = config.schedulingChoice;
  if (choice.case !== 'dynamicBatching') return new DirectScheduler({ ...options, preserveOrdering: false });
  const batching = choice.value;
  const { maxRows } = options.plan;
  const policy = queuePolicyOf(batching);
  const all = { ...options, preserveOrdering: batching.preserveOrdering };
  if (maxRows < 2 && !policy) return new DirectScheduler(all);
  const limits = batchLimitsOf(batching, maxRows);
  return new DynamicBatchScheduler(all, waits ? limits : { ...limits, delayMs: 0 }, policy);
}

/** A model that turned out to be unable to batch takes fewer rows than its config says. */
function batchLimitsOf(
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
