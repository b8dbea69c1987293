import { describe, expect, it } from 'vitest';
import {
  type BundleLimits,
  bundleSize,
  decideFlush,
  type LineState,
  rowsPerBundle,
  windowFor,
} from '../../../../producer/dispatch/coalesce-policy.ts';

const limits: BundleLimits = { maxRequests: 32, maxRows: 8, maxBytes: 1000, windowMs: 2, maxAddsInFlight: 4 };
const line: LineState = { requests: 1, rows: 1, bytes: 10, oldestMs: 100, lastFlushMs: 0, addsInFlight: 0 };

describe('the coalescing policy', () => {
  it('rests when nothing waits', () => {
    expect(decideFlush({ ...line, requests: 0 }, 100, limits)).toEqual({ kind: 'rest' });
  });

  it('sends a request at once on an idle line', () => {
    expect(decideFlush(line, 100, limits)).toEqual({ kind: 'flush' });
  });

  it('lets a request wait for company shortly after a bundle has left', () => {
    expect(decideFlush({ ...line, lastFlushMs: 99 }, 100, limits)).toEqual({ kind: 'wait', ms: 1 });
  });

  it('lets a request wait no longer than the window, even while many adds are under way', () => {
    const busy = { ...line, addsInFlight: 4 };
    expect(decideFlush(busy, 100, limits)).toEqual({ kind: 'wait', ms: 2 });
    expect(decideFlush(busy, 102, limits)).toEqual({ kind: 'flush' });
  });

  it.each([{ requests: 32 }, { rows: 8 }, { bytes: 1000 }])('never holds a full bundle back: %j', (full) => {
    expect(decideFlush({ ...line, addsInFlight: 9, lastFlushMs: 100, ...full }, 100, limits)).toEqual({
      kind: 'flush',
    });
  });
});

describe('the size of a bundle', () => {
  const one = { rows: 1, bytes: 10 };

  it('is bounded by requests, rows and bytes', () => {
    expect(bundleSize(new Array(50).fill({ rows: 0, bytes: 0 }), limits)).toBe(32);
    expect(bundleSize(new Array(50).fill(one), limits)).toBe(8);
    expect(bundleSize(new Array(50).fill({ rows: 0, bytes: 400 }), limits)).toBe(2);
  });

  it('is one for a request that is bigger than any bundle may be', () => {
    expect(bundleSize([{ rows: 100, bytes: 1e9 }, one], limits)).toBe(1);
  });

  it('never splits a request over two bundles', () => {
    expect(bundleSize([{ rows: 5, bytes: 1 }, { rows: 5, bytes: 1 }, one], limits)).toBe(1);
  });
});

describe('rowsPerBundle', () => {
  it('is one batch while nothing is known of the model, and where its runs are long', () => {
    expect(rowsPerBundle(16, 32, { runMs: undefined, runRows: 0 })).toBe(16);
    expect(rowsPerBundle(16, 32, { runMs: 50, runRows: 12 })).toBe(16);
    expect(rowsPerBundle(0, 32, { runMs: 50, runRows: 1 })).toBe(1);
  });

  it('is as many as a bundle takes where runs are short, and never less than one batch', () => {
    for (const [maxBatchSize, rows] of [
      [16, 32],
      [0, 32],
      [64, 64],
    ] as const) {
      expect(rowsPerBundle(maxBatchSize, 32, { runMs: 1, runRows: 16 })).toBe(rows);
    }
  });

  it('is two runs where they are long and smaller than they may be', () => {
    expect(rowsPerBundle(32, 32, { runMs: 14, runRows: 1 })).toBe(2);
    expect(rowsPerBundle(32, 32, { runMs: 14, runRows: 2.2 })).toBe(5);
  });
});

describe('windowFor', () => {
  it('is what a request may always wait while the workers keep up', () => {
    expect(windowFor(2, 0)).toBe(2);
    expect(windowFor(2, 32)).toBe(2);
  });

  it('is a small part of what requests wait for the model anyway, up to a bound', () => {
    expect(windowFor(2, 160)).toBe(10);
    expect(windowFor(2, 60_000)).toBe(25);
  });

  it('is never shorter than what was asked for', () => {
    expect(windowFor(50, 60_000)).toBe(50);
  });
});
