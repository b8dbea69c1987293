import { describe, expect, it } from 'vitest';
import { InferError } from '../../../../../shared/errors.ts';
import { DynamicBatchScheduler } from '../../../../../worker/engine/schedule/dynamic-batch-scheduler.ts';
import { RowLimits } from '../../../../../worker/engine/schedule/row-limits.ts';
import { floatsOf, type HeldRun, settle } from '../support/fake-instance.ts';
import { modelPlan } from '../support/plans.ts';
import { callAt, request, schedulerParts } from '../support/scheduler-kit.ts';

const MINUTE = 60_000;

describe('the limits of rows by shape', () => {
  it('halve what found no memory, and leave other shapes alone', () => {
    const limits = new RowLimits(16);
    expect(limits.rowsFor('a', 0)).toBe(Infinity);
    expect(limits.leastRows).toBeUndefined();
    expect(limits.lower('a', 13, 0)).toBe(7);
    expect(limits.rowsFor('a', 1)).toBe(7);
    expect(limits.rowsFor('b', 1)).toBe(Infinity);
    expect(limits.leastRows).toBe(7);
    expect(limits.lower('a', 1, 1)).toBe(1);
    expect(limits.leastRows).toBe(1);
  });

  it('say nothing of a run that began before they were lowered', () => {
    const limits = new RowLimits(16);
    limits.lower('a', 8, 0);
    expect(limits.lower('a', 16, 1)).toBeUndefined();
    expect(limits.rowsFor('a', 2)).toBe(4);
  });

  it('allow twice the rows after a while, and are gone when that goes well', () => {
    const limits = new RowLimits(16);
    limits.lower('a', 16, 0);
    expect(limits.rowsFor('a', MINUTE - 1)).toBe(8);
    expect(limits.rowsFor('a', MINUTE)).toBe(16);
    expect(limits.leastRows).toBeUndefined();
    expect(limits.any).toBe(true);
    expect(limits.rowsFor('a', 2 * MINUTE)).toBe(Infinity);
    expect(limits.any).toBe(false);
  });

  it('hold for twice as long each time that more rows fail again, and are told of once', () => {
    const limits = new RowLimits(16);
    expect(limits.lower('a', 16, 0)).toBe(8);
    expect(limits.rowsFor('a', MINUTE)).toBe(16);
    expect(limits.lower('a', 16, MINUTE)).toBeUndefined();
    expect(limits.rowsFor('a', MINUTE)).toBe(8);
    expect(limits.rowsFor('a', 3 * MINUTE - 1)).toBe(8);
    expect(limits.rowsFor('a', 3 * MINUTE)).toBe(16);
  });

  it('forget the oldest of too many shapes', () => {
    const limits = new RowLimits(16);
    for (let shape = 0; shape <= 256; shape += 1) limits.lower(String(shape), 16, 0);
    expect(limits.rowsFor('0', 1)).toBe(Infinity);
    expect(limits.rowsFor('256', 1)).toBe(8);
  });
});

describe('a scheduler whose runs find no memory', () => {
  const NO_MEMORY = new InferError('RESOURCE_EXHAUSTED', 'no memory');

  function start() {
    const warned: object[] = [];
    const parts = schedulerParts({ plan: modelPlan({ maxRows: 8 }) });
    const logger = { ...parts.logger, warn: (fields: object) => warned.push(fields) };
    const scheduler = new DynamicBatchScheduler({ ...parts, logger }, { maxRows: 8, preferredRows: [8], delayMs: 0 });
    const send = (values: readonly number[], columns = 1) =>
      scheduler.enqueue(request(values, columns), callAt(parts.clock)).then(
        ({ outputs }) => [...floatsOf(outputs[0]!)],
        (error: unknown) => (error instanceof InferError ? error.code : String(error)),
      );
    const [instance] = parts.instances;
    let done = 0;
    /** Runs of more than `fitting` rows find no memory. */
    const answerAll = async (fitting: number) => {
      for (let run: HeldRun | undefined; (run = instance!.runs[done]); done += 1) {
        if ((run.inputs[0]!.shape[0] ?? 0) > fitting) run.fail(NO_MEMORY);
        else run.finish();
        await settle();
      }
    };
    const sizes = () => instance!.runs.map(({ inputs }) => inputs[0]!.shape[0]);
    return { ...parts, send, answerAll, sizes, warned };
  }

  it('answers each request from smaller runs, and forms no larger ones of that shape', async () => {
    const { send, answerAll, sizes, warned, stats } = start();
    const first = [send([1]), send([2]), send([3]), send([4]), send([5])];
    await answerAll(2);
    expect(await Promise.all(first)).toEqual([[1], [2], [3], [4], [5]]);
    expect(sizes()).toEqual([1, 4, 2, 2]);
    expect(warned).toEqual([expect.objectContaining({ model: 'm', rows: 4, maxRows: 2, shapes: 'x [1]' })]);
    expect(stats.memoryRows).toBe(2);
    const later = [send([1]), send([2]), send([3]), send([4]), send([5])];
    await answerAll(2);
    expect(await Promise.all(later)).toEqual([[1], [2], [3], [4], [5]]);
    expect(sizes().slice(4)).toEqual([1, 2, 2]);
    const wide = [send([1, 1], 2), send([2, 2], 2), send([3, 3], 2), send([4, 4], 2)];
    await answerAll(8);
    await Promise.all(wide);
    expect(sizes().slice(7)).toEqual([1, 3]); // another shape
  });

  it('tries more rows after a while', async () => {
    const { send, answerAll, sizes, clock, stats } = start();
    const round = async (fitting: number) => {
      const from = sizes().length;
      const sent = [1, 2, 3, 4, 5].map((value) => send([value]));
      await answerAll(fitting);
      expect(await Promise.all(sent)).toEqual([[1], [2], [3], [4], [5]]);
      return sizes().slice(from);
    };
    expect(await round(2)).toEqual([1, 4, 2, 2]);
    clock.advance(MINUTE);
    expect(await round(8)).toEqual([1, 4]);
    clock.advance(MINUTE);
    await round(8);
    clock.advance(MINUTE);
    await round(8);
    expect(stats.memoryRows).toBeUndefined();
  });

  it('refuses a request that is alone and too large, with the reason, and lets the others pass', async () => {
    const { send, answerAll } = start();
    const answers = [send([1]), send([1, 2, 3, 4]), send([5])];
    await answerAll(3);
    expect(await Promise.all(answers)).toEqual([[1], 'RESOURCE_EXHAUSTED', [5]]);
  });
});
