import { describe, expect, it } from 'vitest';
import { InferError } from '../../../../../shared/errors.ts';
import { RunSlots } from '../../../../../worker/engine/execute/run-slots.ts';
import { DirectScheduler } from '../../../../../worker/engine/schedule/direct-scheduler.ts';
import { settle } from '../support/fake-instance.ts';
import { callAt, request, schedulerParts } from '../support/scheduler-kit.ts';

function create(overrides: Parameters<typeof schedulerParts>[0] = {}) {
  const parts = schedulerParts(overrides);
  const scheduler = new DirectScheduler(parts);
  const send = (values: readonly number[]) => {
    const call = callAt(parts.clock);
    const result = scheduler.enqueue(request(values), call);
    result.catch(() => {}); // the tests look at it later
    return { call, result };
  };
  return { ...parts, scheduler, send, instance: parts.instances[0]! };
}

describe('DirectScheduler', () => {
  it('runs each request alone, in the order of arrival', async () => {
    const { send, scheduler, instance } = create();
    for (const value of [1, 2, 3]) send([value]);
    expect(scheduler.pending()).toBe(2);
    for (const index of [0, 1, 2]) {
      instance.runs[index]!.finish();
      await settle();
    }
    expect(instance.batches).toEqual([[1], [2], [3]]);
  });

  it('tells an instance whether anything else is in hand, in any model', async () => {
    const slots = new RunSlots(8);
    const [one, other] = [create({ slots }), create({ slots })];
    for (const value of [1, 2]) one.send([value]);
    other.send([3]); // while one runs
    one.instance.runs[0]!.finish();
    other.instance.runs[0]!.finish();
    await settle();
    one.instance.runs[1]!.finish();
    await settle();
    one.send([4]);
    expect(one.instance.runs.map(({ alone }) => alone)).toEqual([true, false, true]);
    expect(other.instance.runs.map(({ alone }) => alone)).toEqual([false]);
  });

  it('says that nothing was merged', async () => {
    const { send, instance, stats } = create();
    const { result } = send([1, 2]);
    instance.runs[0]!.finish();
    expect((await result).timings).toMatchObject({ release: 'direct', batchSize: 2, executions: 1 });
    expect(stats).toMatchObject({ inferenceCount: 2, executionCount: 1 });
  });

  it('never runs a request that was cancelled while it waited', async () => {
    const { send, instance } = create();
    send([1]);
    const gone = send([2]);
    send([3]);
    gone.call.cancel(new InferError('CANCELLED', 'gone'));
    await expect(gone.result).rejects.toMatchObject({ code: 'CANCELLED' });
    instance.runs[0]!.finish();
    await settle();
    expect(instance.batches).toEqual([[1], [3]]);
  });

  it('refuses a call that is over before it comes', async () => {
    const { scheduler, clock, instance } = create();
    const call = callAt(clock, 0);
    await expect(scheduler.enqueue(request([1]), call)).rejects.toMatchObject({ code: 'DEADLINE_EXCEEDED' });
    expect(instance.runs).toHaveLength(0);
  });

  it('passes the error of the model on, and counts it', async () => {
    const { send, instance, stats } = create();
    const { result } = send([1]);
    instance.runs[0]!.fail(new InferError('INVALID_ARGUMENT', 'no'));
    await expect(result).rejects.toMatchObject({ code: 'INVALID_ARGUMENT', message: 'no' });
    expect(stats.failures).toEqual({ REJECTED: 0, CANCELED: 0, BACKEND: 1, OTHER: 0 });
  });

  it('answers an error that is none of ours without its text', async () => {
    const { send, instance } = create();
    const { result } = send([1]);
    instance.runs[0]!.fail(new TypeError('secret path') as unknown as InferError);
    await expect(result).rejects.toMatchObject({ code: 'INTERNAL', message: "model 'm' failed while it ran" });
  });

  it('gives up an instance whose run does not stop, and says so', async () => {
    const { send, scheduler, clock, instance } = create();
    instance.stoppable = false;
    const { result } = send([1]);
    const closed = scheduler.close(10);
    clock.advance(10);
    await settle();
    await expect(result).rejects.toMatchObject({ code: 'UNAVAILABLE' });
    clock.advance(5000);
    expect(await closed).toBe(false);
    expect(instance.closed).toBe(false);
  });
});
