import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { boundDelay, chooseBatching } from '../../../../../worker/engine/schedule/choose-batching.ts';
import { RunTimes } from '../../../../../worker/engine/schedule/run-times.ts';

const SIZES = [1, 2, 4, 8, 16];
const curve = (msOf: (rows: number) => number, sizes = SIZES) =>
  new RunTimes(sizes.map((rows) => ({ rows, ms: msOf(rows) })));
const free = { maxRows: 16, maxDelayMs: 1000, budgetMs: undefined, pressed: false, heldRows: 0 };

describe('chooseBatching', () => {
  it('takes many rows, and waits no longer than their run, where rows share a cost', () => {
    expect(
      chooseBatching(
        curve((rows) => 10 + rows),
        free,
      ),
    ).toEqual({ rows: 16, delayMs: 26, tooSlow: false });
  });

  it('takes one row at a time, and lets nobody wait, where rows share nothing', () => {
    expect(
      chooseBatching(
        curve((rows) => 10 * rows),
        free,
      ),
    ).toEqual({ rows: 1, delayMs: 0, tooSlow: false });
  });

  it('takes the smallest of the sizes that cost about the same a row', () => {
    expect(
      chooseBatching(
        curve((rows) => (rows < 4 ? 20 : 5 * rows)),
        free,
      ),
    ).toMatchObject({ rows: 4 });
  });

  it('waits no longer than what the run saves', () => {
    expect(
      chooseBatching(
        curve((rows) => 10 * rows * (rows > 1 ? 0.8 : 1), [1, 2]),
        free,
      ),
    ).toEqual({
      rows: 2,
      delayMs: 4,
      tooSlow: false,
    });
  });

  it('keeps two runs and the delay within the budget', () => {
    const times = curve((rows) => 10 + rows);
    expect(chooseBatching(times, { ...free, budgetMs: 40 })).toEqual({ rows: 8, delayMs: 4, tooSlow: false });
    expect(chooseBatching(times, { ...free, budgetMs: 20 })).toEqual({ rows: 1, delayMs: 0, tooSlow: true });
    expect(chooseBatching(times, { ...free, budgetMs: 10 })).toEqual({ rows: 16, delayMs: 0, tooSlow: true });
  });

  it('keeps the budget where only runs of more rows than one do', () => {
    const times = curve((rows) => (rows === 1 ? 50 : 4 + rows));
    expect(chooseBatching(times, { ...free, budgetMs: 40 })).toMatchObject({ rows: 16, tooSlow: false });
    expect(chooseBatching(times, { ...free, budgetMs: 30 })).toMatchObject({ rows: 8, tooSlow: false });
  });

  it('takes the best time per row when pressed, whatever the budget', () => {
    const times = curve((rows) => 10 + rows);
    expect(chooseBatching(times, { ...free, budgetMs: 40, pressed: true })).toMatchObject({ rows: 16, delayMs: 0 });
  });

  it('has nothing to spare when pressed: the best of near sizes, not the smallest', () => {
    const times = curve((rows) => 10 * rows * (rows < 8 ? 1 : rows < 16 ? 0.75 : 0.7));
    expect(chooseBatching(times, free).rows).toBe(8);
    expect(chooseBatching(times, { ...free, pressed: true }).rows).toBe(16);
  });

  it('keeps the rows of now while they are near the best and nearly within the budget', () => {
    const times = curve((rows) => 10 + rows);
    expect(chooseBatching(times, { ...free, budgetMs: 50, heldRows: 16 }).rows).toBe(16);
    expect(chooseBatching(times, { ...free, budgetMs: 47, heldRows: 16 }).rows).toBe(8);
    expect(chooseBatching(times, { ...free, budgetMs: 60, heldRows: 8 }).rows).toBe(16);
  });

  it('takes rows that cost no time where no run keeps the budget', () => {
    const times = curve((rows) => (rows <= 8 ? 10 : rows));
    expect(chooseBatching(times, { ...free, budgetMs: 15 })).toMatchObject({ rows: 8, tooSlow: true });
  });

  it('takes the maximum of the config where nothing is known', () => {
    expect(
      chooseBatching(
        curve(() => 0, []),
        { ...free, maxDelayMs: 0 },
      ),
    ).toMatchObject({ rows: 16, delayMs: 0 });
  });

  it('for any curve and bounds: never above the maximum nor the delay, and within the budget unless it says otherwise', () => {
    const times = fc.array(fc.double({ min: 0.01, max: 1000, noNaN: true }), { minLength: 1, maxLength: 8 });
    const bounds = fc.record({
      maxRows: fc.integer({ min: 1, max: 200 }),
      maxDelayMs: fc.double({ min: 0, max: 100, noNaN: true }),
      budgetMs: fc.option(fc.double({ min: 0.1, max: 2000, noNaN: true }), { nil: undefined }),
      pressed: fc.boolean(),
      heldRows: fc.constant(0),
    });
    fc.assert(
      fc.property(times, bounds, (ms, limits) => {
        const known = new RunTimes(ms.map((each, index) => ({ rows: 2 ** index, ms: each })));
        const { rows, delayMs, tooSlow } = chooseBatching(known, limits);
        expect(rows).toBeGreaterThanOrEqual(1);
        expect(rows).toBeLessThanOrEqual(limits.maxRows);
        expect(delayMs).toBeGreaterThanOrEqual(0);
        expect(delayMs).toBeLessThanOrEqual(Math.min(limits.maxDelayMs, known.at(rows)));
        if (limits.budgetMs === undefined || limits.pressed || tooSlow) return;
        expect(delayMs + 2 * known.at(rows)).toBeLessThanOrEqual(limits.budgetMs * (1 + 1e-9));
      }),
    );
  });
});

describe('boundDelay', () => {
  it('leaves a delay alone without a budget, and leaves two runs their time with one', () => {
    const times = curve((rows) => rows);
    expect(boundDelay(times, 16, { maxDelayMs: 50, budgetMs: undefined })).toBe(50);
    expect(boundDelay(times, 16, { maxDelayMs: 50, budgetMs: 40 })).toBe(8);
    expect(boundDelay(times, 16, { maxDelayMs: 50, budgetMs: 30 })).toBe(0);
  });

  it('gives runs half of the budget where nothing is known of them', () => {
    expect(
      boundDelay(
        curve(() => 0, []),
        16,
        { maxDelayMs: 50, budgetMs: 40 },
      ),
    ).toBe(20);
  });
});
