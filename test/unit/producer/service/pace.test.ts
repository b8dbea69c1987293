import { expect, test } from 'vitest';
import { Pace, Rate } from '../../../../producer/service/pace.ts';

function fakeClock() {
  const clock = { nowMs: 0, now: () => clock.nowMs, setTimer: () => () => undefined };
  return clock;
}

/** One after another, each in its time. */
function work(pace: Pace, clock: { nowMs: number }, count: number, eachMs: number, model = 'm'): void {
  for (let i = 0; i < count; i++) {
    pace.enter(model);
    clock.nowMs += eachMs;
    pace.leave(model, true);
  }
}

/** A speed that is measured from few events is off by as much. */
function expectAbout(ms: number, expectedMs: number): void {
  expect(Math.abs(ms - expectedMs)).toBeLessThan(expectedMs / 4);
}

test('one that is refused is told at least a second, and a second while nothing was measured', () => {
  const clock = fakeClock();
  const pace = new Pace(clock);
  expect(pace.retryAfterMs(1000)).toBe(1000);
  work(pace, clock, 100, 1);
  expect(pace.retryAfterMs(1)).toBe(1000);
});

test('what must leave first is divided by the speed, from the first ones on', () => {
  const clock = fakeClock();
  const pace = new Pace(clock);
  work(pace, clock, 3, 500); // two a second
  expectAbout(pace.retryAfterMs(10), 5000);
});

test('those who are refused one after another are told one time after another, until some have left', () => {
  const clock = fakeClock();
  const pace = new Pace(clock);
  work(pace, clock, 100, 1000); // one a second
  const told = Array.from({ length: 4 }, () => pace.retryAfterMs(1));
  told.forEach((ms, index) => expectAbout(ms, (index + 1) * 1000));
  work(pace, clock, 4, 1000);
  expectAbout(pace.retryAfterMs(1), 1000);
});

test('one who asks again and again makes nobody else wait for longer than the line, which moves on by itself', () => {
  const clock = fakeClock();
  const pace = new Pace(clock);
  for (let i = 0; i < 1000; i++) pace.retryAtMs(1, 10, 'tenant/impatient');
  expect(pace.retryAtMs(1, 10, 'tenant/impatient')).toBe(60_000);
  expect(pace.retryAtMs(1, 10, 'tenant/other')).toBe(1000);
  expect(pace.retryAtMs(1, 10, 'pool')).toBe(1000);
  clock.nowMs += 60_000; // nobody came, and nothing left
  expect(pace.retryAtMs(1, 10, 'tenant/impatient')).toBe(1000);
});

test('a large request waits long and does not make those behind it wait as long', () => {
  const pace = new Pace(fakeClock());
  expect(pace.retryAtMs(50, 10, 'pool')).toBe(5000);
  expect(pace.retryAtMs(50, 10, 'pool')).toBe(5100);
  expect(pace.retryAtMs(1, 10, 'pool')).toBe(1000);
});

test('nobody is told more than a minute', () => {
  const clock = fakeClock();
  const pace = new Pace(clock);
  work(pace, clock, 10, 10_000);
  expect(pace.retryAfterMs(100)).toBe(60_000);
});

test('a quiet time does not make a model slow', () => {
  const rate = new Rate(0);
  for (let ms = 0; ms < 20_000; ms += 100) {
    rate.enter(ms);
    rate.leave(ms + 100, true);
  }
  const before = rate.perSecond(20_000)!;
  expect(before).toBeCloseTo(10, 0);
  expect(rate.perSecond(3_600_000)).toBeCloseTo(before, 5);
  rate.enter(3_600_000);
  expect(rate.perSecond(3_600_000)).toBeCloseTo(before, 5);
});

test('a model has a speed of its own', () => {
  const clock = fakeClock();
  const pace = new Pace(clock);
  work(pace, clock, 10, 4000, 'slow');
  work(pace, clock, 1000, 10, 'fast');
  expectAbout(pace.retryAfterMs(2, 'slow'), 8000);
  expect(pace.retryAfterMs(2, 'fast')).toBe(1000);
});
