import { describe, expect, it } from 'vitest';
import { fetchConcurrency } from '../../../../worker/consumer/fetch-policy.ts';

const limits = { targetRows: 128, maxBytes: 1000 };

describe('how many bundles a worker fetches', () => {
  it('is few when bundles are full and many when they hold one request', () => {
    const empty = { bundles: 0, rows: 0, bytes: 0 };
    expect(fetchConcurrency(empty, 32, limits)).toBe(4);
    expect(fetchConcurrency(empty, 1, limits)).toBe(64);
  });

  it('is what it has when enough rows or bytes are in hand', () => {
    expect(fetchConcurrency({ bundles: 4, rows: 128, bytes: 0 }, 32, limits)).toBe(4);
    expect(fetchConcurrency({ bundles: 2, rows: 2, bytes: 1000 }, 1, limits)).toBe(2);
  });

  it('is at least one more while there is room', () => {
    expect(fetchConcurrency({ bundles: 3, rows: 127, bytes: 0 }, 1000, limits)).toBe(4);
  });

  it('is never below one', () => {
    expect(fetchConcurrency({ bundles: 0, rows: 0, bytes: 0 }, 0, { targetRows: 0, maxBytes: 0 })).toBe(1);
  });
});
