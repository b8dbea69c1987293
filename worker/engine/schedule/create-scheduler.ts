import type { ModelConfig } from '../../../shared/proto/generated/model_config_pb.ts';
import type { BatchLimits } from './batch-policy.ts';
import { DirectScheduler } from './direct-scheduler.ts';
import { DynamicBatchScheduler } from './dynamic-batch-scheduler.ts';
import type { Scheduler, SchedulerOptions } from './scheduler.ts';

/** Dynamic batching where the config asks for it and there is something to merge; else one request, one run. */
export function createScheduler(config: ModelConfig, options: SchedulerOptions): Scheduler {
  const limits = batchLimitsOf(config, options.plan.maxRows);
  return limits ? new DynamicBatchScheduler(options, limits) : new DirectScheduler(options);
}

/** undefined where requests are not merged. The config has been normalised and validated. */
function batchLimitsOf(config: ModelConfig, maxRows: number): BatchLimits | undefined {
  const choice = config.schedulingChoice;
  if (choice.case !== 'dynamicBatching' || maxRows < 2) return undefined;
  const { preferredBatchSize, maxQueueDelayMicroseconds } = choice.value;
  return {
    maxRows,
    preferredRows: [...new Set(preferredBatchSize)].sort((a, b) => a - b),
    delayMs: Number(maxQueueDelayMicroseconds) / 1000,
  };
}
