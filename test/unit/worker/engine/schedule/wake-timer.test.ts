import { describe, expect, it } from 'vitest';
import { LONGEST_TIMER_MS, WakeTimer } from '../../../../../worker/engine/schedule/wake-timer.ts';
import { FakeClock } from '../support/fake-clock.ts';

describe('WakeTimer', () => {
  it('calls back at the earliest of the times it was armed for, and once', () => {
    const clock = new FakeClock();
    let calls = 0;
    const timer = new WakeTimer(clock, 100, () => (calls += 1));
    timer.arm(clock.now(), 50);
    timer.arm(clock.now(), 20);
    timer.arm(clock.now(), 80);
    clock.advance(19);
    expect(calls).toBe(0);
    clock.advance(1);
    expect(calls).toBe(1);
    clock.advance(1000);
    expect(calls).toBe(1);
  });

  it('wakes early rather than at once for a wait that no timer can hold', () => {
    const asked: number[] = [];
    const clock = { now: () => 0, setTimer: (_: () => void, ms: number) => (asked.push(ms), () => {}) };
    new WakeTimer(clock, 1, () => {}).arm(0, 2 ** 40);
    expect(asked).toEqual([LONGEST_TIMER_MS]);
  });
});
