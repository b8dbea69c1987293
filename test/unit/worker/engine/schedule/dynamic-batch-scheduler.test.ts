import { describe, expect, it } from 'vitest';
import { InferError } from '../../../../../shared/errors.ts';
import { RunSlots } from '../../../../../worker/engine/execute/run-slots.ts';
import type { BatchLimits } from '../../../../../worker/engine/schedule/batch-policy.ts';
import { DynamicBatchScheduler } from '../../../../../worker/engine/schedule/dynamic-batch-scheduler.ts';
import { LONELY_WAITS } from '../../../../../worker/engine/schedule/wait-evidence.ts';
import { FakeClock } from '../support/fake-clock.ts';
import type { FakeInstance } from '../support/fake-instance.ts';
import { floats, floatsOf, settle } from '../support/fake-instance.ts';
import { modelPlan, tensorPlan } from '../support/plans.ts';
import { callAt, request, schedulerParts } from '../support/scheduler-kit.ts';

function create(limits: Partial<BatchLimits> = {}, overrides: Parameters<typeof schedulerParts>[0] = {}) {
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

const values = async (result: Promise<{ outputs: readonly { data: Uint8Array }[] }>) => [
  ...floatsOf((await result).outputs[0]! as Parameters<typeof floatsOf>[0]),
];

const code = (result: Promise<unknown>) =>
  result.then(
    () => 'fulfilled',
    (error: unknown) => (error instanceof InferError ? error.code : String(error)),
  );

/** Ends every run as it comes, until nothing is left. */
async function finishAll(instances: readonly FakeInstance[]): Promise<void> {
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

  it('settles a cancelled request at once and leaves it out of the batch', async () => {
    const { send, scheduler, clock, instance, stats } = create();
    const gone = send([1]);
    send([2]);
    gone.call.cancel(new InferError('CANCELLED', 'client gone'));
    expect(await code(gone.result)).toBe('CANCELLED');
    expect(scheduler.pending()).toBe(1);
    clock.advance(10);
    expect(instance.batches).toEqual([[2]]);
    expect(stats.failures.CANCELED).toBe(1);
  });

  it('drops a request whose deadline has passed when the batch is formed', async () => {
    const { send, clock, instance } = create();
    const late = send([1], 1, 5);
    send([2]);
    clock.advance(10);
    expect(instance.batches).toEqual([[2]]);
    expect(await code(late.result)).toBe('DEADLINE_EXCEEDED');
  });

  it('ends a request at its deadline while the instance is busy with another', async () => {
    const { send, clock, instance } = create({ maxRows: 1 });
    const running = send([1]);
    const queued = send([2], 1, 100);
    clock.advance(130);
    expect(await code(queued.result)).toBe('DEADLINE_EXCEEDED');
    expect(instance.runs[0]!.stopped).toBe(false);
    instance.runs[0]!.finish();
    expect(await values(running.result)).toEqual([1]);
    await settle();
    expect(instance.runs).toHaveLength(1);
  });

  it('stops a run that nobody waits for any more, and only then', async () => {
    const { send, instance } = create({ maxRows: 2 });
    const first = send([1]);
    const second = send([2]);
    first.call.cancel(new InferError('CANCELLED', 'gone'));
    expect(instance.runs[0]!.stopped).toBe(false);
    second.call.cancel(new InferError('CANCELLED', 'gone'));
    expect(instance.runs[0]!.stopped).toBe(true);
    await settle();
    const next = send([3, 3]);
    instance.runs[1]!.finish();
    expect(await values(next.result)).toEqual([3, 3]);
  });

  it('fails only the guilty request of a batch', async () => {
    const { send, instances, instance } = create({ maxRows: 8 });
    const results = [0, 1, 2, 3, 4, 5, 6, 7].map((value) => send([value]));
    const handled = new Set<object>();
    for (let more = true; more;) {
      more = false;
      for (const run of instances[0]!.runs) {
        if (handled.has(run)) continue;
        handled.add(run);
        more = true;
        if (floatsOf(run.inputs[0]!).includes(5)) run.fail(new InferError('INVALID_ARGUMENT', 'five is bad'));
        else run.finish();
      }
      await settle();
    }
    const codes = await Promise.all(results.map(({ result }) => code(result)));
    expect(codes).toEqual(codes.map((_, index) => (index === 5 ? 'INVALID_ARGUMENT' : 'fulfilled')));
    expect(instance.runs.length).toBeLessThan(16);
    expect(await values(results[4]!.result)).toEqual([4]);
  });

  it('runs requests one by one for good when the outputs do not have a row for each row', async () => {
    const { send, instance } = create({ maxRows: 2 });
    const first = send([1]);
    const second = send([2]);
    instance.runs[0]!.answer([floats('y', [1, 1], [1])]);
    await settle();
    instance.runs[1]!.finish();
    await settle();
    instance.runs[2]!.finish();
    expect(await values(first.result)).toEqual([1]);
    expect(await values(second.result)).toEqual([2]);
    send([3]);
    send([4]);
    expect(instance.batches.slice(1)).toEqual([[1], [2], [3]]);
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

  describe('when it closes', () => {
    it('runs what waits, refuses what comes, and closes the instances', async () => {
      const { send, scheduler, instance, stats } = create();
      const waiting = send([1]);
      const closed = scheduler.close(1000);
      expect(await code(send([2]).result)).toBe('UNAVAILABLE');
      instance.runs[0]!.finish();
      expect(await values(waiting.result)).toEqual([1]);
      expect(await closed).toBe(true);
      expect(instance.closed).toBe(true);
      expect(stats.releases.drain).toBe(1);
    });

    it('fails what is not done when the grace is over, and stops its run', async () => {
      const { send, scheduler, clock, instance } = create({ maxRows: 1 });
      const running = send([1]);
      const waiting = send([2]);
      const closed = scheduler.close(50);
      clock.advance(50);
      await settle();
      expect(await code(running.result)).toBe('UNAVAILABLE');
      expect(await code(waiting.result)).toBe('UNAVAILABLE');
      expect(instance.runs[0]!.stopped).toBe(true);
      expect(await closed).toBe(true);
      expect(instance.runs).toHaveLength(1);
    });
  });
});
