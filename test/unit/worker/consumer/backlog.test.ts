import { describe, expect, test } from 'vitest';
import { Backlog } from '../../../../worker/consumer/backlog.ts';

/** Bundles of one request, each in hand for `ms`; the next begins `pauseMs` after the last was completed. */
function run(backlog: Backlog, count: number, { ms, pauseMs }: { ms: number; pauseMs: number }): number {
  let nowMs = 1000;
  for (let i = 0; i < count; i++) {
    backlog.noteStart(1, nowMs);
    nowMs += ms;
    backlog.noteAnswered(ms);
    backlog.noteCompleted(nowMs);
    nowMs += pauseMs;
  }
  return nowMs;
}

describe('fetching ahead', () => {
  test('a worker that knows nothing yet fetches ahead', () => {
    expect(new Backlog().likely(0)).toBe(true);
  });

  test('short bundles that come one by one are not fetched ahead', () => {
    const backlog = new Backlog();
    expect(backlog.likely(run(backlog, 20, { ms: 1, pauseMs: 3 }))).toBe(false);
  });

  test('a single job handed over with the end of the last one is no backlog yet', () => {
    const backlog = new Backlog();
    run(backlog, 20, { ms: 1, pauseMs: 3 });
    expect(backlog.likely(run(backlog, 3, { ms: 1, pauseMs: 0 }))).toBe(false);
  });

  test('many jobs without a wait between them are a backlog, and it ends a moment after the last of them', () => {
    const backlog = new Backlog();
    const nowMs = run(backlog, 20, { ms: 1, pauseMs: 0 });
    expect(backlog.likely(nowMs)).toBe(true);
    expect(backlog.likely(nowMs + 100)).toBe(false);
  });

  test('a bundle of several requests is a sign of load', () => {
    const backlog = new Backlog();
    const nowMs = run(backlog, 20, { ms: 1, pauseMs: 3 });
    backlog.noteStart(2, nowMs);
    expect(backlog.likely(nowMs)).toBe(true);
  });

  test('while runs are long the next bundle is always fetched ahead', () => {
    const backlog = new Backlog();
    expect(backlog.likely(run(backlog, 20, { ms: 50, pauseMs: 500 }))).toBe(true);
  });
});
