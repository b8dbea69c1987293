import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Demand, neededWorkers, SlowDescent, wholeWorkers } from '../../../../producer/pool/desired-workers.ts';

const IDLE: Demand = { waitingRows: 0, runningRows: 0, load: 0, rowsPerSecond: 100, recent: false };

const demands = fc.record({
  waitingRows: fc.nat(1_000_000),
  runningRows: fc.nat(10_000),
  load: fc.double({ min: 0, max: 1000, noNaN: true }),
  rowsPerSecond: fc.option(fc.double({ min: 0.001, max: 1e6, noNaN: true }), { nil: undefined }),
  recent: fc.boolean(),
});
const goals = fc.integer({ min: 1, max: 600_000 });

describe('neededWorkers', () => {
  it('works off what waits and runs within the goal', () => {
    expect(neededWorkers({ ...IDLE, waitingRows: 350, runningRows: 50 }, 1000)).toBe(4);
    expect(neededWorkers({ ...IDLE, waitingRows: 400 }, 2000)).toBe(2);
  });

  it('keeps those that keep up: a pool without a queue is not a pool without work', () => {
    expect(neededWorkers({ ...IDLE, runningRows: 8, load: 3.2 }, 1000)).toBeCloseTo(4.08);
  });

  it('asks for nobody where nothing waits, runs or ran a moment ago', () => {
    expect(neededWorkers({ ...IDLE, load: 0.4 }, 1000)).toBe(0);
  });

  it('keeps one worker for somebody who comes now and then', () => {
    expect(wholeWorkers([neededWorkers({ ...IDLE, recent: true }, 1000)], 10)).toBe(1);
  });

  it('asks for one worker, which measures it, where nobody knows the speed', () => {
    expect(neededWorkers({ ...IDLE, waitingRows: 1_000_000, rowsPerSecond: undefined }, 1000)).toBe(1);
  });

  it('asks for no more workers than there are rows', () => {
    expect(neededWorkers({ ...IDLE, waitingRows: 1, rowsPerSecond: 0.1 }, 1000)).toBe(1);
  });

  it('grows with what waits', () => {
    fc.assert(
      fc.property(demands, goals, fc.nat(10_000), (demand, goal, more) => {
        const larger = { ...demand, waitingRows: demand.waitingRows + more };
        expect(neededWorkers(larger, goal)).toBeGreaterThanOrEqual(neededWorkers(demand, goal));
      }),
    );
  });

  it('falls with the speed and with a wider goal', () => {
    fc.assert(
      fc.property(demands, goals, fc.double({ min: 1, max: 100, noNaN: true }), (demand, goal, factor) => {
        const need = neededWorkers(demand, goal);
        const { rowsPerSecond } = demand;
        if (rowsPerSecond !== undefined) {
          const faster = { ...demand, rowsPerSecond: rowsPerSecond * factor };
          expect(neededWorkers(faster, goal)).toBeLessThanOrEqual(need);
        }
        expect(neededWorkers(demand, goal * factor)).toBeLessThanOrEqual(need);
      }),
    );
  });

  it('is a number of workers whatever it is given, at least one in whole where anything waits', () => {
    fc.assert(
      fc.property(demands, goals, fc.integer({ min: 1, max: 1000 }), (demand, goal, max) => {
        const need = neededWorkers(demand, goal);
        expect(Number.isFinite(need) && need >= 0).toBe(true);
        const whole = wholeWorkers([need], max);
        expect(Number.isInteger(whole) && whole >= 0 && whole <= max).toBe(true);
        if (demand.waitingRows > 0) expect(whole).toBeGreaterThanOrEqual(1);
      }),
    );
  });
});

describe('wholeWorkers', () => {
  it('lets models share a worker', () => {
    expect(wholeWorkers([0.2, 0.3, 0.1], 10)).toBe(1);
    expect(wholeWorkers([0.9, 0.9], 10)).toBe(2);
    expect(wholeWorkers([], 10)).toBe(0);
  });

  it('takes rounding for no need', () => {
    expect(wholeWorkers([0.1, 0.2, 0.7], 10)).toBe(1);
  });
});

describe('SlowDescent', () => {
  const steps = fc.array(fc.record({ value: fc.nat(100), afterMs: fc.nat(30_000) }), { minLength: 1, maxLength: 60 });

  it('is the largest target of the window', () => {
    fc.assert(
      fc.property(steps, (given) => {
        const descent = new SlowDescent(60_000);
        const seen: { value: number; atMs: number }[] = [];
        let nowMs = 0;
        for (const { value, afterMs } of given) {
          nowMs += afterMs;
          seen.push({ value, atMs: nowMs });
          const inWindow = seen.filter(({ atMs }) => atMs > nowMs - 60_000);
          expect(descent.next(value, nowMs)).toBe(Math.max(...inWindow.map((target) => target.value)));
        }
      }),
    );
  });

  it('does not follow a load that comes and goes within the window', () => {
    const descent = new SlowDescent(60_000);
    const told = Array.from({ length: 100 }, (_, second) => descent.next(second % 20 < 10 ? 5 : 1, second * 1000));
    expect(new Set(told)).toEqual(new Set([5]));
  });

  it('goes up at once and down to zero after the window', () => {
    const descent = new SlowDescent(60_000);
    expect(descent.next(1, 0)).toBe(1);
    expect(descent.next(9, 1000)).toBe(9);
    expect(descent.next(0, 60_999)).toBe(9);
    expect(descent.next(0, 61_000)).toBe(0);
  });
});
