import { describe, expect, it } from 'vitest';
import { decideDirect, decideOldest } from '../../../../../worker/engine/sequence/lane-policy.ts';

const DIRECT = { slots: 4, maxRows: 4, minimumUtilization: 0, delayMs: 0 };
const OLDEST = { maxRows: 4, preferredRows: [4], delayMs: 10 };
const MOOD = { patient: true, draining: false };

function ready(...keys: string[]) {
  return keys.map((groupKey, index) => ({ groupKey, readyMs: 100 + index }));
}

describe('decideDirect', () => {
  it('runs whatever is ready at once', () => {
    expect(decideDirect(ready('', ''), 101, DIRECT, false)).toEqual({ run: ready('', ''), reason: 'idle' });
  });

  it('says when all places are full', () => {
    expect(decideDirect(ready('', '', '', ''), 103, DIRECT, false)).toMatchObject({ reason: 'full' });
  });

  it('waits for the delay, from the oldest on, until enough places have a request', () => {
    const limits = { ...DIRECT, minimumUtilization: 0.75, delayMs: 10 };
    expect(decideDirect(ready('', ''), 104, limits, false)).toEqual({ waitMs: 6 });
    expect(decideDirect(ready('', '', ''), 104, limits, false)).toMatchObject({ reason: 'idle' });
    expect(decideDirect(ready('', ''), 110, limits, false)).toMatchObject({ reason: 'delay' });
    expect(decideDirect(ready('', ''), 104, limits, true)).toMatchObject({ reason: 'drain' });
  });

  it('runs those that fit the oldest, and no more than a run may hold', () => {
    const three = ready('a', 'b', 'a');
    expect(decideDirect(three, 103, DIRECT, false)).toEqual({ run: [three[0], three[2]], reason: 'shape' });
    expect(decideDirect(three, 103, { ...DIRECT, maxRows: 1 }, false)).toEqual({ run: [three[0]], reason: 'full' });
  });
});

describe('decideOldest', () => {
  it('waits for the delay, for company of the same shape', () => {
    expect(decideOldest(ready('a', 'b'), 104, OLDEST, MOOD)).toEqual({ waitMs: 6 });
    expect(decideOldest(ready('a', 'b'), 110, OLDEST, MOOD)).toMatchObject({
      run: [{ readyMs: 100 }],
      reason: 'shape',
    });
  });

  it('runs a full group although an older one still waits', () => {
    const all = ready('a', 'b', 'b', 'b', 'b', 'b');
    expect(decideOldest(all, 105, OLDEST, MOOD)).toEqual({ run: all.slice(1, 5), reason: 'full' });
  });

  it('runs the largest preferred size and leaves the rest', () => {
    const limits = { ...OLDEST, maxRows: 8, preferredRows: [2, 3] };
    expect(decideOldest(ready('', '', ''), 102, limits, MOOD)).toMatchObject({
      reason: 'preferred',
      run: { length: 3 },
    });
  });
});
