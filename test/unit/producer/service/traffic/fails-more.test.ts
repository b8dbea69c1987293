import { describe, expect, it } from 'vitest';
import { failsMore } from '../../../../../producer/service/traffic/fails-more.ts';
import { FailureWindow } from '../../../../../producer/service/traffic/failure-window.ts';

describe('whether a version fails more', () => {
  it.each([
    [20, 20, 400, 0, 'all of a few'],
    [20, 10, 400, 2, 'half of a few'],
    [2000, 100, 40_000, 40, 'five percent of many'],
    [1000, 400, 30, 0, 'where the others have few'],
  ])('is clear: %i requests, %i failed, of %i others %i (%s)', (total, failed, othersTotal, othersFailed) => {
    expect(failsMore({ total, failed }, { total: othersTotal, failed: othersFailed })).toBe(true);
  });

  it.each([
    [19, 19, 400, 0, 'too few requests'],
    [100, 4, 400, 0, 'too few failures'],
    [20, 20, 0, 0, 'nothing to compare with'],
    [1000, 500, 1000, 500, 'both fail'],
    [300, 9, 6000, 60, 'within chance'],
    [100, 20, 100, 40, 'the others fail more'],
  ])('is not: %i requests, %i failed, of %i others %i (%s)', (total, failed, othersTotal, othersFailed) => {
    expect(failsMore({ total, failed }, { total: othersTotal, failed: othersFailed })).toBe(false);
  });

  it('is hardly ever said of versions that fail alike', () => {
    // A generator of its own, so that the test says the same each time.
    let seed = 42;
    const random = () => (seed = (seed * 48_271) % 2_147_483_647) / 2_147_483_647;
    let alarms = 0;
    for (let trial = 0; trial < 200; trial += 1) {
      const [own, others] = [
        { total: 0, failed: 0 },
        { total: 0, failed: 0 },
      ];
      let alarm = false;
      for (let i = 0; i < 3000; i += 1) {
        const side = random() < 0.1 ? own : others;
        side.total += 1;
        if (random() < 0.02) side.failed += 1;
        alarm ||= failsMore(own, others);
      }
      if (alarm) alarms += 1;
    }
    expect(alarms).toBeLessThanOrEqual(1);
  });
});

describe('a window of outcomes', () => {
  it('counts what is recent and forgets what is not', () => {
    const window = new FailureWindow(60_000);
    for (let i = 0; i < 10; i += 1) window.note(i < 4, 1000 + i);
    expect(window.outcomes(2000)).toEqual({ total: 10, failed: 4 });
    window.note(false, 50_000);
    expect(window.outcomes(59_000)).toEqual({ total: 11, failed: 4 });
    expect(window.outcomes(70_000)).toEqual({ total: 1, failed: 0 });
    window.note(true, 10 * 60_000);
    expect(window.outcomes(10 * 60_000)).toEqual({ total: 1, failed: 1 });
    expect(window.outcomes(20 * 60_000)).toEqual({ total: 0, failed: 0 });
  });
});
