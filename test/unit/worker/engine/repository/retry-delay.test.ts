import { describe, expect, it } from 'vitest';
import { RetryDelay } from '../../../../../worker/engine/repository/retry-delay.ts';

describe('RetryDelay', () => {
  it('doubles from one second to thirty, and begins anew after a success', () => {
    const delay = new RetryDelay();
    const waits: number[] = [];
    let nowMs = 0;
    for (let i = 0; i < 7; i += 1) {
      delay.failed(nowMs);
      const sinceMs = nowMs;
      while (delay.holds(nowMs)) nowMs += 500;
      waits.push(nowMs - sinceMs);
    }
    expect(waits).toEqual([1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
    delay.over();
    expect(delay.holds(nowMs)).toBe(false);
    delay.failed(nowMs);
    expect([delay.holds(nowMs + 999), delay.holds(nowMs + 1000)]).toEqual([true, false]);
  });

  it('lets somebody look for a change once a second', () => {
    const delay = new RetryDelay();
    delay.failed(0);
    expect([999, 1000, 1500, 2000].map((ms) => delay.mayLook(ms))).toEqual([false, true, false, true]);
  });
});
