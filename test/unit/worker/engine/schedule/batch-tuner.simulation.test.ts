import { describe, expect, it } from 'vitest';
import { capacityOf, type Load, simulate } from '../support/queue-simulation.ts';

const SECONDS = 120;

const CURVES: Readonly<Record<string, (rows: number) => number>> = {
  'a run costs as much as ten rows': (rows) => 10 + rows,
  'rows cost next to nothing': (rows) => 20 + 0.2 * rows,
  'rows cost nearly all': (rows) => 1 + 2 * rows,
  'company gains nothing': (rows) => 5 * rows,
  'up to eight rows are free': (rows) => (rows <= 8 ? 8 : 0.8 * 8 * Math.ceil(rows / 8)),
};

/** The best that any one size gives, without a delay. */
function bestP99Ms(load: Load): number {
  return Math.min(...[1, 8, 16, 64].map((maxRows) => simulate(load, { maxRows, preferredRows: [], delayMs: 0 }).p99Ms));
}

const loads = Object.entries(CURVES).flatMap(([name, curve]) =>
  [20, 60].flatMap((goalMs) =>
    [0.3, 0.6, 0.9].map((share) => ({ name, curve, goalMs, share, perSecond: share * capacityOf(curve) })),
  ),
);

describe('BatchTuner under a steady load', () => {
  it.each(loads)('settles near the best size where $name, goal $goalMs ms, load $share', ({ curve, ...given }) => {
    const load = { ...given, curve, noise: 0.4, seconds: SECONDS };
    const { p99Ms, changesMs } = simulate(load);
    expect(changesMs.filter((atMs) => atMs > (SECONDS - 60) * 1000).length).toBeLessThanOrEqual(4);
    expect(p99Ms).toBeLessThanOrEqual(Math.max(given.goalMs, 2 * bestP99Ms(load)));
  });

  it('keeps the larger runs that a load needs, although nothing is late any more with them', () => {
    const curve = (rows: number) => 10 + rows;
    const load = { curve, perSecond: 600, goalMs: 50, seconds: SECONDS };
    const { p99Ms, limits, changesMs } = simulate(load);
    expect(limits.maxRows).toBe(64);
    expect(changesMs).toHaveLength(1);
    expect(p99Ms).toBeLessThan(80);
  });

  it('finds back to its rows after seconds in which everything was slow', () => {
    const curve = (rows: number) => 10 + rows;
    const load = { curve, perSecond: 250, goalMs: 60, seconds: SECONDS };
    const msOf = (rows: number, nowMs: number) => curve(rows) * (nowMs > 40_000 && nowMs < 46_000 ? 15 : 1);
    const undisturbed = simulate(load);
    const disturbed = simulate({ ...load, msOf });
    expect(disturbed.limits.maxRows).toBeGreaterThanOrEqual(undisturbed.limits.maxRows);
    expect(disturbed.p99Ms).toBeLessThan(2 * undisturbed.p99Ms);
  });

  it('tries a size that really is slow ever more rarely', () => {
    const curve = (rows: number) => 10 + rows;
    const msOf = (rows: number) => curve(rows) * (rows > 8 ? 3 : 1);
    const load = { curve, msOf, perSecond: 150, goalMs: 120, noise: 0.2 };
    const { limits, changesMs } = simulate({ ...load, seconds: 600 });
    expect(limits.maxRows).toBeLessThanOrEqual(8);
    const late = changesMs.filter((atMs) => atMs > 300_000);
    expect(late.length).toBeLessThan(changesMs.length - late.length);
    expect(late.length).toBeLessThanOrEqual(10);
  });
});
