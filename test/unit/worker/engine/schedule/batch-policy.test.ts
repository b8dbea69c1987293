import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { BatchLimits, Mood, WaitingView } from '../../../../../worker/engine/schedule/batch-policy.ts';
import { decide } from '../../../../../worker/engine/schedule/batch-policy.ts';

const LIMITS: BatchLimits = { maxRows: 8, preferredRows: [8], delayMs: 10 };
const MOOD: Mood = { patient: true, draining: false, othersWait: false };

/** A group of requests with these rows, the oldest of which arrived at 0. */
function group(rows: readonly number[]) {
  let head: WaitingView | undefined;
  for (let i = rows.length - 1; i >= 0; i -= 1) head = { rows: rows[i]!, next: head };
  return { head, oldestMs: 0, rows: rows.reduce((sum, count) => sum + count, 0) };
}

const ones = (count: number) => group(new Array<number>(count).fill(1));

describe('decide', () => {
  it('lets a lone request wait for the rest of the delay', () => {
    expect(decide(ones(1), 4, LIMITS, MOOD)).toEqual({ waitMs: 6 });
  });

  it('runs what is there when the delay of the oldest is over', () => {
    expect(decide(ones(3), 10, LIMITS, MOOD)).toEqual({ run: 3, reason: 'delay' });
  });

  it('runs a full batch at once and leaves the rest', () => {
    expect(decide(ones(11), 0, LIMITS, MOOD)).toEqual({ run: 8, reason: 'full' });
  });

  it('counts rows, not requests', () => {
    expect(decide(group([5, 3, 1]), 0, LIMITS, MOOD)).toEqual({ run: 2, reason: 'full' });
  });

  it('runs a batch that cannot grow, because the next request would not fit', () => {
    expect(decide(group([3, 3, 3]), 0, LIMITS, MOOD)).toEqual({ run: 2, reason: 'full' });
  });

  it('does not wait without a delay', () => {
    expect(decide(ones(2), 0, { ...LIMITS, delayMs: 0 }, MOOD)).toEqual({ run: 2, reason: 'idle' });
  });

  it('does not wait where waiting has brought nobody', () => {
    expect(decide(ones(1), 0, LIMITS, { ...MOOD, patient: false })).toEqual({ run: 1, reason: 'idle' });
  });

  it('runs everything while draining', () => {
    expect(decide(ones(3), 0, LIMITS, { ...MOOD, draining: true })).toEqual({ run: 3, reason: 'drain' });
  });

  it('says that the shape was the reason when requests of other shapes wait', () => {
    const othersWait = { ...MOOD, othersWait: true };
    expect(decide(ones(3), 10, LIMITS, othersWait)).toEqual({ run: 3, reason: 'shape' });
    expect(decide(ones(3), 0, { ...LIMITS, delayMs: 0 }, othersWait)).toEqual({ run: 3, reason: 'shape' });
  });

  describe('with preferred sizes', () => {
    const preferring = { ...LIMITS, preferredRows: [2, 4] };

    it('runs a preferred size at once', () => {
      expect(decide(ones(4), 0, preferring, MOOD)).toEqual({ run: 4, reason: 'preferred' });
    });

    it('takes the largest one that can be reached and leaves the rest waiting', () => {
      expect(decide(ones(6), 0, preferring, MOOD)).toEqual({ run: 4, reason: 'preferred' });
    });

    it('takes everything once the delay is over, preferred or not', () => {
      expect(decide(ones(6), 10, preferring, MOOD)).toEqual({ run: 6, reason: 'delay' });
    });

    it('takes a full batch under backlog instead of many preferred ones', () => {
      expect(decide(ones(40), 0, preferring, MOOD)).toEqual({ run: 8, reason: 'full' });
    });

    it('runs everything where the rows stepped over the largest preferred size', () => {
      expect(decide(group([3, 3]), 0, preferring, MOOD)).toEqual({ run: 2, reason: 'preferred' });
    });

    it('waits where the rows stepped over a smaller one only', () => {
      expect(decide(group([3]), 0, preferring, MOOD)).toEqual({ waitMs: 10 });
    });
  });
});

describe('decide, for any queue', () => {
  const limits = fc
    .record({ maxRows: fc.integer({ min: 1, max: 32 }), delayMs: fc.nat({ max: 20 }), seed: fc.array(fc.nat()) })
    .map(({ maxRows, delayMs, seed }) => ({
      maxRows,
      delayMs,
      preferredRows: [...new Set(seed.map((value) => 1 + (value % maxRows)))].sort((a, b) => a - b),
    }));
  const mood = fc.record({ patient: fc.boolean(), draining: fc.boolean(), othersWait: fc.boolean() });
  const sizes = fc.array(fc.integer({ min: 1, max: 32 }), { minLength: 1, maxLength: 60 });

  it('takes at least one request and never more rows than the maximum', () => {
    fc.assert(
      fc.property(limits, mood, sizes, fc.nat({ max: 30 }), (bounds, feeling, rows, nowMs) => {
        const fitting = rows.map((count) => Math.min(count, bounds.maxRows));
        const decision = decide(group(fitting), nowMs, bounds, feeling);
        if (!('run' in decision)) return;
        const taken = fitting.slice(0, decision.run).reduce((sum, count) => sum + count, 0);
        expect(decision.run).toBeGreaterThanOrEqual(1);
        expect(decision.run).toBeLessThanOrEqual(fitting.length);
        expect(taken).toBeLessThanOrEqual(bounds.maxRows);
      }),
    );
  });

  it('never lets the oldest wait beyond the delay', () => {
    fc.assert(
      fc.property(limits, mood, sizes, fc.nat({ max: 30 }), (bounds, feeling, rows, nowMs) => {
        const fitting = rows.map((count) => Math.min(count, bounds.maxRows));
        const decision = decide(group(fitting), nowMs, bounds, feeling);
        if (nowMs >= bounds.delayMs) expect(decision).toHaveProperty('run');
        if ('waitMs' in decision) {
          expect(decision.waitMs).toBeGreaterThan(0);
          expect(nowMs + decision.waitMs).toBeLessThanOrEqual(bounds.delayMs);
        }
      }),
    );
  });

  it('takes batches that cannot grow whenever the queue holds enough', () => {
    fc.assert(
      fc.property(limits, mood, fc.nat({ max: 100 }), (bounds, feeling, extra) => {
        const decision = decide(ones(bounds.maxRows + extra), 0, bounds, feeling);
        expect(decision).toEqual({ run: bounds.maxRows, reason: 'full' });
      }),
    );
  });
});
