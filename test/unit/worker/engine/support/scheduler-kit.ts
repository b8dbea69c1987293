import { Call } from '../../../../../shared/infer/call.ts';
import { ModelStats } from '../../../../../shared/infer/model-stats.ts';
import type { InferRequest } from '../../../../../shared/infer/request.ts';
import { NO_PARAMETERS } from '../../../../../shared/infer/request.ts';
import { silentLogger } from '../../../../../shared/runtime/logger.ts';
import type { ModelPlan } from '../../../../../worker/engine/batch/model-plan.ts';
import { RunSlots } from '../../../../../worker/engine/execute/run-slots.ts';
import { DeadlineSweep } from '../../../../../worker/engine/schedule/deadline-sweep.ts';
import type { SchedulerOptions } from '../../../../../worker/engine/schedule/scheduler.ts';
import { FakeClock } from './fake-clock.ts';
import { FakeInstance, floats } from './fake-instance.ts';
import { modelPlan } from './plans.ts';

/** The parts of a scheduler that tests hold on to. */
export interface SchedulerParts extends SchedulerOptions {
  readonly clock: FakeClock;
  readonly instances: readonly FakeInstance[];
}

export function schedulerParts(
  overrides: {
    plan?: ModelPlan;
    instances?: number;
    slots?: RunSlots;
    maxQueueSize?: number;
    clock?: FakeClock;
    preserveOrdering?: boolean;
  } = {},
): SchedulerParts {
  const clock = overrides.clock ?? new FakeClock();
  return {
    plan: overrides.plan ?? modelPlan(),
    instances: Array.from({ length: overrides.instances ?? 1 }, () => new FakeInstance()),
    stats: new ModelStats('m', '1'),
    maxQueueSize: overrides.maxQueueSize ?? 100,
    preserveOrdering: overrides.preserveOrdering ?? false,
    slots: overrides.slots ?? new RunSlots(8),
    deadlines: new DeadlineSweep(clock),
    clock,
    defer: (callback) => callback(),
    logger: silentLogger,
  };
}

/** A request with one row per value, one column each unless `columns` says more. */
export function request(values: readonly number[], columns = 1, outputs: readonly string[] = []): InferRequest {
  const shape = [values.length / columns, columns];
  return { id: '', model: 'm', version: '', inputs: [floats('x', shape, values)], outputs, parameters: NO_PARAMETERS };
}

export function callAt(clock: FakeClock, timeoutMs = Infinity, priority = 0): Call {
  return new Call('call', clock.now(), clock.now() + timeoutMs, priority);
}
