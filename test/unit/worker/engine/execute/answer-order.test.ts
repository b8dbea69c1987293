import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { InferError } from '../../../../../shared/errors.ts';
import { MAX_BEGUN } from '../../../../../worker/engine/execute/answer-order.ts';
import { DirectScheduler } from '../../../../../worker/engine/schedule/direct-scheduler.ts';
import { DynamicBatchScheduler } from '../../../../../worker/engine/schedule/dynamic-batch-scheduler.ts';
import { floatsOf, settle } from '../support/fake-instance.ts';
import { modelPlan } from '../support/plans.ts';
import { callAt, request, schedulerParts } from '../support/scheduler-kit.ts';

/** Batches of at most two rows on three instances, each request one row. */
function create({ preserveOrdering = true, maxRows = 2, maxQueueSize = 100 } = {}) {
  const parts = schedulerParts({ plan: modelPlan({ maxRows }), instances: 3, preserveOrdering, maxQueueSize });
  const scheduler = new DynamicBatchScheduler(parts, { maxRows, preferredRows: [maxRows], delayMs: 0 });
  const answered: (number | string)[] = [];
  const send = (value: number) => {
    const call = callAt(parts.clock);
    scheduler.enqueue(request([value]), call).then(
      ({ outputs }) => answered.push(floatsOf(outputs[0]!)[0]!),
      (error: unknown) => answered.push(`${value} ${error instanceof InferError ? error.code : 'foreign'}`),
    );
    return call;
  };
  /** The run with this value, the smallest one where there were several. */
  const run = (value: number) =>
    parts.instances
      .flatMap(({ runs }) => runs)
      .filter(({ inputs }) => floatsOf(inputs[0]!).includes(value))
      .toSorted((a, b) => a.inputs[0]!.shape[0]! - b.inputs[0]!.shape[0]!)[0]!;
  return { ...parts, scheduler, send, run, answered };
}

describe('preserve_ordering', () => {
  it('holds an answer back until all that began before it are answered', async () => {
    const { send, run, answered } = create();
    for (const value of [1, 2, 3]) send(value);
    run(3).finish();
    await settle();
    run(2).finish();
    await settle();
    expect(answered).toEqual([]);
    run(1).finish();
    await settle();
    expect(answered).toEqual([1, 2, 3]);
  });

  it('is off unless it is asked for', async () => {
    const { send, run, answered } = create({ preserveOrdering: false });
    for (const value of [1, 2]) send(value);
    run(2).finish();
    await settle();
    expect(answered).toEqual([2]);
  });

  it('keeps the instances at work meanwhile', async () => {
    const { send, run, answered } = create();
    for (const value of [1, 2, 3]) send(value);
    for (const value of [4, 5]) send(value);
    run(2).finish();
    await settle();
    run(4).finish();
    await settle();
    expect(answered).toEqual([]);
    run(1).finish();
    await settle();
    expect(answered).toEqual([1, 2]);
    run(3).finish();
    await settle();
    expect(answered).toEqual([1, 2, 3, 4, 5]);
  });

  it('holds errors in the same order', async () => {
    const { send, run, answered } = create();
    send(1);
    send(2);
    run(2).fail(new InferError('INVALID_ARGUMENT', 'bad'));
    await settle();
    expect(answered).toEqual([]);
    run(1).finish();
    await settle();
    expect(answered).toEqual([1, '2 INVALID_ARGUMENT']);
  });

  it('lets a request keep its place when its batch is run again in parts', async () => {
    const { send, run, answered } = create();
    for (const value of [1, 2, 3]) send(value);
    for (const value of [4, 5]) send(value);
    run(1).finish();
    await settle();
    expect(floatsOf(run(4).inputs[0]!)).toHaveLength(2);
    run(4).fail(new InferError('INTERNAL', 'broken'));
    await settle();
    run(3).finish();
    run(2).finish();
    await settle();
    expect(answered).toEqual([1, 2, 3]);
    run(5).finish();
    await settle();
    expect(answered).toEqual([1, 2, 3]);
    run(4).fail(new InferError('INTERNAL', 'broken'));
    await settle();
    expect(answered).toEqual([1, 2, 3, '4 INTERNAL', 5]);
  });

  it('does not wait for a request whose caller has gone', async () => {
    const { send, run, answered } = create();
    const gone = send(1);
    send(2);
    run(2).finish();
    await settle();
    gone.cancel(new InferError('CANCELLED', 'gone'));
    await settle();
    expect(answered.toSorted()).toEqual(['1 CANCELLED', 2].toSorted());
  });

  it('answers at once a caller that goes while its own answer is held back', async () => {
    const { send, run, answered } = create();
    send(1);
    const gone = send(2);
    run(2).finish();
    await settle();
    gone.cancel(new InferError('CANCELLED', 'gone'));
    await settle();
    expect(answered).toEqual(['2 CANCELLED']);
    run(1).finish();
    await settle();
    expect(answered).toEqual(['2 CANCELLED', 1]);
  });

  it('holds a bounded number of answers: nothing new begins until the oldest is answered', async () => {
    const { send, run, answered, instances } = create({ maxRows: 1, maxQueueSize: 10_000 });
    for (let value = 0; value < MAX_BEGUN + 100; value += 1) send(value);
    const ended = new Set<object>([run(0)]);
    const finishOthers = async () => {
      for (let more = true; more;) {
        more = false;
        for (const one of instances.flatMap(({ runs }) => runs)) {
          if (ended.has(one)) continue;
          ended.add(one);
          one.finish();
          more = true;
        }
        await settle();
      }
    };
    await finishOthers();
    expect(answered).toEqual([]);
    expect(ended.size).toBe(MAX_BEGUN);
    run(0).finish();
    await settle();
    await finishOthers();
    expect(answered).toEqual(Array.from({ length: MAX_BEGUN + 100 }, (_, value) => value));
  });

  it('holds for models whose requests run alone', async () => {
    const parts = schedulerParts({ instances: 2, preserveOrdering: true });
    const scheduler = new DirectScheduler(parts);
    const answered: number[] = [];
    for (const value of [1, 2]) {
      void scheduler.enqueue(request([value]), callAt(parts.clock)).then(() => answered.push(value));
    }
    parts.instances
      .flatMap(({ runs }) => runs)
      .find(({ inputs }) => floatsOf(inputs[0]!)[0] === 2)!
      .finish();
    await settle();
    expect(answered).toEqual([]);
    parts.instances
      .flatMap(({ runs }) => runs)
      .find(({ inputs }) => floatsOf(inputs[0]!)[0] === 1)!
      .finish();
    await settle();
    expect(answered).toEqual([1, 2]);
  });

  it('fails everything that is left, held answers included in their order, when the model is unloaded', async () => {
    const { send, run, answered, scheduler, clock } = create();
    for (const value of [1, 2]) send(value);
    run(2).finish();
    await settle();
    const closed = scheduler.close(50);
    clock.advance(50);
    await closed;
    await settle();
    expect(answered).toEqual(['1 UNAVAILABLE', 2]);
  });

  it('holds for any order in which runs end', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat({ max: 2 }), { minLength: 12, maxLength: 30 }), async (choices) => {
        const { send, answered, instances } = create();
        const ended = new Set<object>();
        const open = () => instances.flatMap(({ runs }) => runs).filter((one) => !ended.has(one));
        choices.forEach((_, value) => send(value));
        for (const choice of [...choices, ...choices]) {
          const runs = open();
          const chosen = runs[choice % Math.max(1, runs.length)];
          if (!chosen) break;
          ended.add(chosen);
          chosen.finish();
          await settle();
        }
        expect(answered).toEqual(choices.map((_, value) => value));
      }),
      { numRuns: 50 },
    );
  });
});
