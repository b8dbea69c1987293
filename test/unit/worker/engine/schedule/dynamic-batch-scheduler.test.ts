import { describe, expect, it } from 'vitest';
import { RunSlots } from '../../../../../worker/engine/execute/run-slots.ts';
import { DynamicBatchScheduler } from '../../../../../worker/engine/schedule/dynamic-batch-scheduler.ts';
import { LONELY_WAITS } from '../../../../../worker/engine/schedule/wait-evidence.ts';
import { create, finishAll, values } from '../support/dynamic-batch-kit.ts';
import { FakeClock } from '../support/fake-clock.ts';
import { floats, settle } from '../support/fake-instance.ts';
import { modelPlan, tensorPlan } from '../support/plans.ts';
import { callAt, request, schedulerParts } from '../support/scheduler-kit.ts';

describe('DynamicBatchScheduler', () => {
  it('runs together what arrives in one turn on an idle instance', async () => {
    const parts = schedulerParts({ plan: modelPlan({ maxRows: 8 }) });
    const limits = { maxRows: 8, preferredRows: [8], delayMs: 0 };
    const scheduler = new DynamicBatchScheduler({ ...parts, defer: queueMicrotask }, limits);
    const results = [1, 2, 3].map((value) => scheduler.enqueue(request([value]), callAt(parts.clock)));
    results.push(scheduler.enqueue(request([4, 5], 2), callAt(parts.clock))); // of another shape
    await settle();
    const [instance] = parts.instances;
    expect(instance!.batches).toEqual([[1, 2, 3]]);
    instance!.runs[0]!.finish();
    await settle();
    expect(instance!.batches).toEqual([
      [1, 2, 3],
      [4, 5],
    ]);
    instance!.runs[1]!.finish();
    expect(await Promise.all(results.map(values))).toEqual([[1], [2], [3], [4, 5]]);
  });

  it('merges what arrives within the delay and gives each caller its own rows', async () => {
    const { send, clock, instance } = create();
    const first = send([1, 2]);
    clock.advance(4);
    const second = send([3]);
    expect(instance.runs).toHaveLength(0);
    clock.advance(6);
    expect(instance.batches).toEqual([[1, 2, 3]]);
    instance.runs[0]!.finish();
    expect(await values(first.result)).toEqual([1, 2]);
    expect(await values(second.result)).toEqual([3]);
  });

  it('counts the delay from the arrival of the oldest, also while an instance is busy', async () => {
    const { send, clock, instance } = create({ maxRows: 2 });
    send([1, 1]);
    clock.advance(3);
    send([2]);
    clock.advance(20);
    expect(instance.runs).toHaveLength(1);
    instance.runs[0]!.finish();
    await settle();
    expect(instance.batches[1]).toEqual([2]);
  });

  it('runs full batches only, under a backlog of 40 rows with a maximum of 20', async () => {
    const { send, instance, instances } = create({ maxRows: 20 });
    send(new Array<number>(20).fill(0));
    for (let i = 0; i < 40; i += 1) send([i]);
    await finishAll(instances);
    expect(instance.batches.map((batch) => batch.length)).toEqual([20, 20, 20]);
  });

  it('makes two batches of two shapes that arrive mixed', async () => {
    const { send, clock, instances, instance, stats } = create();
    const results = [1, 2, 3, 4].flatMap((value) => [send([value, value], 2), send([value, value, value], 3)]);
    clock.advance(10);
    await finishAll(instances);
    expect(instance.runs.map(({ inputs }) => inputs[0]!.shape)).toEqual([
      [4, 2],
      [4, 3],
    ]);
    expect(await values(results[2]!.result)).toEqual([2, 2]);
    expect(stats.releases.shape).toBeGreaterThanOrEqual(1);
  });

  it('keeps requests with and without an optional input apart', async () => {
    const x = tensorPlan('x', 'FP32', [-1, -1]);
    const optional = tensorPlan('o', 'FP32', [-1, -1], { optional: true });
    const plan = modelPlan({ inputs: [x, optional] });
    const { scheduler, clock, instance } = create({}, { plan });
    for (const value of [0, 1, 2, 3]) {
      const inputs = [floats('x', [1, 1], [value]), floats('o', [1, 1], [value])];
      const own = { ...request([value]), inputs: value % 2 === 0 ? inputs : inputs.slice(0, 1) };
      scheduler.enqueue(own, callAt(clock)).catch(() => {}); // never answered
    }
    clock.advance(10);
    instance.runs[0]!.finish();
    await settle();
    expect(instance.batches).toEqual([
      [0, 2],
      [1, 3],
    ]);
    expect(instance.runs.map(({ inputs }) => inputs.map(({ name }) => name))).toEqual([['x', 'o'], ['x']]);
  });

  it('keeps the order within a shape and starves none under a steady load of another', async () => {
    const { send, clock, instance } = create({ maxRows: 2, delayMs: 2 });
    send([0], 1);
    const rare = send([9, 9], 2);
    const answered: unknown[] = [];
    void rare.result.then((response) => answered.push(response));
    for (let round = 0; round < 6; round += 1) {
      send([round * 2 + 1]);
      send([round * 2 + 2]);
      clock.advance(1);
      instance.runs.at(-1)?.finish();
      await settle();
    }
    expect(answered).toHaveLength(1);
    const common = instance.batches.filter((batch) => !batch.includes(9)).flat();
    expect(common).toEqual(common.toSorted((a, b) => a - b));
  });

  it('hands the next batch to the instance before the last one is answered', async () => {
    const { send, instance } = create({ maxRows: 1 });
    const first = send([1]);
    send([2]);
    let runsWhenAnswered = 0;
    void first.result.then(() => (runsWhenAnswered = instance.runs.length));
    instance.runs[0]!.finish();
    await settle();
    expect(runsWhenAnswered).toBe(2);
  });

  it('stops making a lone client wait that sends one request after the other', async () => {
    const { send, clock, instance, stats } = create();
    for (let i = 0; i < LONELY_WAITS; i += 1) {
      send([i]);
      clock.advance(10);
      instance.runs[i]!.finish();
      await settle();
    }
    send([99]);
    expect(instance.batches.at(-1)).toEqual([99]);
    instance.runs.at(-1)!.finish();
    await settle();
    expect(stats.releases).toMatchObject({ delay: LONELY_WAITS, idle: 1 });
  });

  it('waits again once a second client shows', async () => {
    const { send, clock, instance } = create();
    for (let i = 0; i < LONELY_WAITS; i += 1) {
      send([i]);
      clock.advance(10);
      instance.runs[i]!.finish();
      await settle();
    }
    send([1]);
    send([2]);
    instance.runs.at(-1)!.finish();
    await settle();
    expect(instance.batches).toHaveLength(LONELY_WAITS + 1);
    send([3]);
    clock.advance(10);
    expect(instance.batches.at(-1)).toEqual([2, 3]);
  });

  it('runs a full batch while an older request of another shape still waits for company', async () => {
    const { send, clock, instance } = create({ maxRows: 2, delayMs: 10 });
    send([1, 1]);
    clock.advance(1);
    send([2, 2], 2);
    for (const value of [3, 4]) send([value]);
    clock.advance(4);
    instance.runs[0]!.finish();
    await settle();
    expect(instance.batches[1]).toEqual([3, 4]);
  });

  it('answers a lone request within the delay when the instance has just finished (C09)', async () => {
    const { send, clock, instance } = create({ delayMs: 200 });
    send([1, 1, 1, 1, 1, 1, 1, 1]);
    instance.runs[0]!.finish();
    await settle();
    send([2]);
    clock.advance(200);
    expect(instance.batches[1]).toEqual([2]);
  });

  it('does not let a lone request wait a second time after a long batch (C09)', async () => {
    const { send, clock, instance } = create({ delayMs: 200 });
    send([1, 1, 1, 1, 1, 1, 1, 1]);
    send([2]);
    clock.advance(1000);
    instance.runs[0]!.finish();
    await settle();
    expect(instance.batches[1]).toEqual([2]);
  });

  it('uses one timer for any number of waiting requests', () => {
    const { send, clock } = create({ maxRows: 100 });
    for (let i = 0; i < 50; i += 1) send([i], 1);
    for (let i = 0; i < 50; i += 1) send([i, i], 2);
    expect(clock.timers).toBe(1);
  });

  it('refuses a request above the bound of the queue, names the bound, and counts it nowhere', async () => {
    const { send, stats } = create({}, { maxQueueSize: 2 });
    send([1]);
    send([2]);
    await expect(send([3]).result).rejects.toMatchObject({
      code: 'RESOURCE_EXHAUSTED',
      message: expect.stringContaining('2') as string,
    });
    expect(stats.fail.count).toBe(0);
  });

  it('refuses more rows than the maximum and names it', async () => {
    const { send } = create();
    await expect(send(new Array<number>(9).fill(0)).result).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: expect.stringContaining('8') as string,
    });
  });

  it('charges the time of the batch to each request and the execution to one', async () => {
    const { send, clock, instance, stats } = create({ maxRows: 2 });
    const first = send([1]);
    clock.advance(3);
    const second = send([2]);
    clock.advance(5);
    instance.runs[0]!.finish();
    const timings = [(await first.result).timings, (await second.result).timings];
    expect(timings.map(({ queueUs }) => queueUs)).toEqual([3000, 0]);
    expect(timings.map(({ computeInferUs, batchSize }) => [computeInferUs, batchSize])).toEqual([
      [5000, 2],
      [5000, 2],
    ]);
    expect(timings.map(({ executions }) => executions)).toEqual([1, 0]);
    expect(stats).toMatchObject({ inferenceCount: 2, executionCount: 1 });
    expect(stats.computeInfer.ns).toBe(10_000_000);
  });

  it('uses every instance, and no more runs at once than there are slots', () => {
    const slots = new RunSlots(3);
    const clock = new FakeClock();
    const one = create({ maxRows: 1 }, { instances: 2, slots, clock });
    const two = create({ maxRows: 1 }, { instances: 2, slots, clock });
    for (let i = 0; i < 4; i += 1) one.send([i]);
    for (let i = 0; i < 4; i += 1) two.send([i]);
    const running = [...one.instances, ...two.instances].map(({ runs }) => runs.length);
    expect(running.reduce((sum, count) => sum + count, 0)).toBe(3);
  });

  it('gives a freed slot to the model that waited for it', async () => {
    const slots = new RunSlots(1);
    const clock = new FakeClock();
    const one = create({ maxRows: 1 }, { slots, clock });
    const two = create({ maxRows: 1 }, { slots, clock });
    one.send([1]);
    one.send([2]);
    two.send([3]);
    expect(two.instance.runs).toHaveLength(0);
    one.instance.runs[0]!.finish();
    await settle();
    expect([one.instance.runs.length, two.instance.runs.length].toSorted()).toEqual([1, 1]);
  });
});
