import { InferError } from '../../../../../shared/errors.ts';
import type { BatchLimits } from '../../../../../worker/engine/schedule/batch-policy.ts';
import { DynamicBatchScheduler } from '../../../../../worker/engine/schedule/dynamic-batch-scheduler.ts';
import { type FakeInstance, floatsOf, settle } from './fake-instance.ts';
import { modelPlan } from './plans.ts';
import { callAt, request, schedulerParts } from './scheduler-kit.ts';

/** A scheduler with all its parts, and a way to send it requests of one column. */
export function create(limits: Partial<BatchLimits> = {}, overrides: Parameters<typeof schedulerParts>[0] = {}) {
  const maxRows = limits.maxRows ?? 8;
  const parts = schedulerParts({ plan: modelPlan({ maxRows }), ...overrides });
  const scheduler = new DynamicBatchScheduler(parts, { maxRows, preferredRows: [maxRows], delayMs: 10, ...limits });
  const send = (values: readonly number[], columns = 1, timeoutMs = Infinity) => {
    const call = callAt(parts.clock, timeoutMs);
    const result = scheduler.enqueue(request(values, columns), call);
    result.catch(() => {}); // the tests look at it later
    return { call, result };
  };
  return { ...parts, scheduler, send, instance: parts.instances[0]! };
}

/** What an answer holds. */
export const values = async (result: Promise<{ outputs: readonly { data: Uint8Array }[] }>) => [
  ...floatsOf((await result).outputs[0]! as Parameters<typeof floatsOf>[0]),
];

/** How a request ended. */
export const code = (result: Promise<unknown>) =>
  result.then(
    () => 'fulfilled',
    (error: unknown) => (error instanceof InferError ? error.code : String(error)),
  );

/** Ends every run as it comes, until nothing is left. */
export async function finishAll(instances: readonly FakeInstance[]): Promise<void> {
  const done = new Set<object>();
  for (let more = true; more;) {
    more = false;
    for (const run of instances.flatMap((instance) => instance.runs)) {
      if (done.has(run)) continue;
      done.add(run);
      run.finish();
      more = true;
    }
    await settle();
  }
}
