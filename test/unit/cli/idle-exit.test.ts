import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { leaveWhenIdle } from '../../../cli/idle-exit.ts';
import { silentLogger } from '../../../shared/runtime/logger.ts';

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

function start(consumer: { lastWorkMs: () => number; waitingJobs: () => Promise<number> }): string[] {
  const left: string[] = [];
  leaveWhenIdle({ consumer, idleMs: 10_000, leave: (reason) => left.push(reason), logger: silentLogger });
  return left;
}

it('leaves once, when the last job is long enough ago', async () => {
  let lastMs = performance.now();
  const left = start({ lastWorkMs: () => lastMs, waitingJobs: () => Promise.resolve(0) });
  await vi.advanceTimersByTimeAsync(9000);
  lastMs = performance.now();
  await vi.advanceTimersByTimeAsync(9500);
  expect(left).toEqual([]);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(left).toEqual(['idle']);
});

it('stays while a job waits, one that comes while it looks, or Redis does not say', async () => {
  const answers = [() => Promise.resolve(1), () => Promise.reject(new Error('away')), () => Promise.resolve(0)];
  const lastMs = performance.now();
  let asked = 0;
  const left = start({ lastWorkMs: () => lastMs, waitingJobs: () => answers[asked++]!() });
  await vi.advanceTimersByTimeAsync(11_000);
  expect({ asked, left }).toEqual({ asked: 3, left: ['idle'] });

  let workMs = performance.now();
  const again = start({
    lastWorkMs: () => workMs,
    waitingJobs: () => {
      workMs = performance.now(); // taken in this moment
      return Promise.resolve(0);
    },
  });
  await vi.advanceTimersByTimeAsync(15_000);
  expect(again).toEqual([]);
});
