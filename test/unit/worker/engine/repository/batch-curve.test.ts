import { describe, expect, it } from 'vitest';
import type { ModelInstance } from '../../../../../worker/engine/instance/instance.ts';
import { companyPays, measureBatchCurve } from '../../../../../worker/engine/repository/batch-curve.ts';
import { InferError } from '../../../../../shared/errors.ts';
import { FakeClock } from '../support/fake-clock.ts';
import { modelPlan } from '../support/plans.ts';

/** An instance whose runs take as long as `msOf` says, on the clock of the test. */
function instanceOf(clock: FakeClock, msOf: (rows: number) => number): ModelInstance {
  return {
    run([x]) {
      clock.advance(msOf(x?.shape[0] ?? 0));
      return { result: Promise.resolve([]), stop: () => {} };
    },
    close: () => Promise.resolve(),
  };
}

async function curveOf(msOf: (rows: number) => number, maxRows = 16) {
  const clock = new FakeClock();
  const points = await measureBatchCurve(modelPlan({ maxRows }), instanceOf(clock, msOf), clock, 500);
  return { points, pays: companyPays(points, maxRows) };
}

describe('the batch curve', () => {
  it('has a point for each doubling up to the maximum', async () => {
    const { points } = await curveOf((rows) => rows, 12);
    expect(points).toEqual([1, 2, 4, 8, 12].map((rows) => ({ rows, ms: rows })));
  });

  it('says that company pays where rows share a cost, and that it does not where they do not', async () => {
    expect((await curveOf((rows) => 1 + rows / 100)).pays).toBe(true);
    expect((await curveOf((rows) => rows)).pays).toBe(false);
    expect((await curveOf((rows) => rows * (rows < 8 ? 1 : 0.5))).pays).toBe(true);
  });

  it('ends with its time, and then says no only on enough evidence', async () => {
    const slow = await curveOf((rows) => rows * 20);
    expect(slow.points.length).toBeLessThan(5);
    expect((await curveOf((rows) => rows * 100)).pays).toBe(true);
  });

  it('says nothing about a model that does not take made-up input', async () => {
    const refused: ModelInstance = {
      run: () => ({ result: Promise.reject(new InferError('INVALID_ARGUMENT', 'no')), stop: () => {} }),
      close: () => Promise.resolve(),
    };
    const points = await measureBatchCurve(modelPlan(), refused, new FakeClock(), 500);
    expect([points, companyPays(points, 8)]).toEqual([[], true]);
  });
});
