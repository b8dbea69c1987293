import { describe, expect, it } from 'vitest';
import { BatchTuner, REVIEW_ANSWERS, REVIEW_MS } from '../../../../../worker/engine/schedule/batch-tuner.ts';
import { DynamicBatchScheduler } from '../../../../../worker/engine/schedule/dynamic-batch-scheduler.ts';
import { RunTimes } from '../../../../../worker/engine/schedule/run-times.ts';
import { settle } from '../support/fake-instance.ts';
import { modelPlan } from '../support/plans.ts';
import { callAt, request, schedulerParts } from '../support/scheduler-kit.ts';

/** A scheduler whose runs took 10 ms and 1 ms a row at load. */
function start(goalMs?: number) {
  const parts = schedulerParts({ plan: modelPlan({ maxRows: 16 }), maxQueueSize: 1000 });
  const { clock } = parts;
  const tuner = new BatchTuner(
    {
      times: new RunTimes([1, 2, 4, 8, 16].map((rows) => ({ rows, ms: 10 + rows }))),
      config: { maxRows: 16, preferredRows: [16], delayMs: 0 },
      auto: true,
      maxDelayMs: 50,
      goalMs,
      onChange: () => {},
    },
    clock.now(),
  );
  const scheduler = new DynamicBatchScheduler(parts, tuner.limits, undefined, tuner);
  const [instance] = parts.instances;
  const answers: Promise<unknown>[] = [];
  const arrive = (rows = 1) => {
    answers.push(scheduler.enqueue(request(new Array<number>(rows).fill(1)), callAt(clock)));
  };
  /** Ends the run under way after so long. */
  const end = async (ms: number) => {
    clock.advance(ms);
    instance?.runs.at(-1)?.finish();
    await settle();
  };
  const sizes = () => instance?.runs.map(({ inputs }) => inputs[0]?.shape[0]);
  return { tuner, scheduler, clock, arrive, end, sizes, answers };
}

describe('a scheduler with a tuner', () => {
  it('makes runs of the chosen rows, not of the maximum of the model', async () => {
    const { arrive, end, sizes } = start(50);
    for (let i = 0; i < 24; i += 1) arrive();
    await end(18);
    await end(18);
    await end(18);
    expect(sizes()).toEqual([8, 8, 8]);
  });

  it('takes a request of more rows than that whole, on its own', async () => {
    const { arrive, end, sizes } = start(50);
    arrive(12);
    await end(22);
    expect(sizes()).toEqual([12]);
  });

  it('goes over to other limits while requests wait, and answers everyone', async () => {
    const { tuner, scheduler, clock, arrive, end, sizes, answers } = start(50);
    const before = tuner.limits;
    // Runs that take twice as long as at load leave no room for eight rows.
    while (answers.length < 8 * REVIEW_ANSWERS) {
      for (let i = tuner.limits.maxRows; i > 0; i -= 1) arrive();
      await end(36);
    }
    clock.advance(REVIEW_MS);
    for (let i = 0; i < 3; i += 1) arrive();
    while (scheduler.open() > 0) await end(36);
    expect(tuner.limits.maxRows).toBeLessThan(before.maxRows);
    expect(Math.max(...(sizes() ?? []).map(Number))).toBe(before.maxRows);
    for (let i = 0; i < 8; i += 1) arrive();
    expect(sizes()?.at(-1)).toBeLessThan(8);
    while (scheduler.open() > 0) await end(11);
    await Promise.all(answers);
  });

  it('waits as long as was chosen', async () => {
    const { tuner, clock, arrive, end, sizes } = start();
    arrive();
    clock.advance(tuner.limits.delayMs - 1);
    expect(sizes()).toEqual([]);
    clock.advance(1);
    expect(sizes()).toEqual([1]);
    await end(11);
  });
});
