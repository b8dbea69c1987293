import { describe, expect, it } from 'vitest';
import { normaliseModelConfig } from '../../../../../shared/model/normalise-config.ts';
import { parseModelConfig } from '../../../../../shared/model/parse-config.ts';
import { createScheduler } from '../../../../../worker/engine/schedule/create-scheduler.ts';
import { DirectScheduler } from '../../../../../worker/engine/schedule/direct-scheduler.ts';
import { DynamicBatchScheduler } from '../../../../../worker/engine/schedule/dynamic-batch-scheduler.ts';
import { modelPlan } from '../support/plans.ts';
import { callAt, request, schedulerParts } from '../support/scheduler-kit.ts';

function create(text: string, maxRows: number, batched = maxRows > 0) {
  const parts = schedulerParts({ plan: modelPlan({ maxRows: Math.max(1, maxRows), batched }) });
  const config = normaliseModelConfig(parseModelConfig(`max_batch_size: ${maxRows} ${text}`, 'config.pbtxt'));
  return { ...parts, scheduler: createScheduler(config, parts) };
}

describe('createScheduler', () => {
  it.each([
    ['', 8],
    ['dynamic_batching { }', 1],
    ['dynamic_batching { default_queue_policy { } preserve_ordering: true }', 0],
  ])('runs requests one by one with %j and max_batch_size %d', (text, maxRows) => {
    expect(create(text, maxRows).scheduler).toBeInstanceOf(DirectScheduler);
  });

  it.each([
    ['dynamic_batching { }', 8],
    ['dynamic_batching { default_queue_policy { max_queue_size: 1 } }', 1],
    ['dynamic_batching { priority_levels: 2 default_priority_level: 1 }', 0],
  ])('batches, or keeps a queue policy, with %j and max_batch_size %d', (text, maxRows) => {
    expect(create(text, maxRows).scheduler).toBeInstanceOf(DynamicBatchScheduler);
  });

  it('keeps the policy of a model that takes one request a run, and calls those runs direct', async () => {
    const { scheduler, clock, instances, stats } = create(
      'dynamic_batching { default_queue_policy { max_queue_size: 1 } }',
      1,
    );
    const [first] = [1, 2].map((value) => scheduler.enqueue(request([value]), callAt(clock)));
    await expect(scheduler.enqueue(request([3]), callAt(clock))).rejects.toMatchObject({ code: 'UNAVAILABLE' });
    instances[0]!.runs[0]!.finish();
    await first;
    expect(stats.releases.direct).toBe(1);
  });
});
