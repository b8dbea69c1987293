import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ShareTurns } from '../../../../../producer/service/traffic/share-turns.ts';
import { toSteps } from '../../../../../shared/traffic/traffic-rule.ts';

const all = () => true;

function countTurns(turns: ShareTurns, requests: number, usable: (version: string) => boolean = all) {
  const counts: Record<string, number> = {};
  for (let i = 0; i < requests; i += 1) {
    const version = turns.next(usable) ?? 'none';
    counts[version] = (counts[version] ?? 0) + 1;
  }
  return counts;
}

/** Shares of 1 to 5 versions in steps of a percent that add up to 100. */
const SHARES = fc
  .array(fc.integer({ min: 0, max: 100 }), { minLength: 0, maxLength: 4 })
  .map((cuts) => [0, ...cuts.sort((a, b) => a - b), 100])
  .map((cuts) => new Map(cuts.slice(1).map((cut, i) => [String(i + 1), cut - (cuts[i] ?? 0)])));

describe('shares of requests', () => {
  it('are exact after every hundred requests, and near in between', () => {
    fc.assert(
      fc.property(SHARES, fc.integer({ min: 1, max: 350 }), (shares, requests) => {
        const counts = countTurns(new ShareTurns(shares), requests);
        for (const [version, percent] of shares) {
          const due = (requests * percent) / 100;
          const got = counts[version] ?? 0;
          if (requests % 100 === 0) expect(got).toBe(due);
          expect(Math.abs(got - due)).toBeLessThan(shares.size);
        }
      }),
    );
  });

  it('may be thousandths of a percent', () => {
    const counts = countTurns(
      new ShareTurns(
        new Map([
          ['1', 99.995],
          ['2', 0.005],
        ]),
      ),
      100_000,
    );
    expect(counts).toEqual({ 1: 99_995, 2: 5 });
  });

  it('go to the others while a version cannot be used, and come back after', () => {
    const turns = new ShareTurns(
      new Map([
        ['1', 50],
        ['2', 30],
        ['3', 20],
      ]),
    );
    countTurns(turns, 37);
    const counts = countTurns(turns, 700, (version) => version !== '2');
    expect(counts[2]).toBeUndefined();
    expect(Math.abs((counts[1] ?? 0) - 500)).toBeLessThan(2);
    const { 2: back = 0 } = countTurns(turns, 100);
    expect(Math.abs(back - 30)).toBeLessThan(3);
  });

  it('are nobody’s when no version with a share can be used', () => {
    const turns = new ShareTurns(
      new Map([
        ['1', 100],
        ['2', 0],
      ]),
    );
    expect(turns.next((version) => version === '2')).toBeUndefined();
    expect(turns.ofKey('a', (version) => version === '2')).toBeUndefined();
    expect(new ShareTurns(new Map()).next(all)).toBeUndefined();
  });
});

describe('keys', () => {
  const keys = Array.from({ length: 20_000 }, (_, i) => `user-${i}`);

  it('get the same version each time, in any process', () => {
    const shares = new Map([
      ['1', 80],
      ['2', 20],
    ]);
    const [one, other] = [new ShareTurns(shares), new ShareTurns(shares)];
    for (const key of keys.slice(0, 500)) {
      one.next(all);
      expect(one.ofKey(key, all)).toBe(other.ofKey(key, all));
    }
  });

  it('are spread by the shares', () => {
    const turns = new ShareTurns(
      new Map([
        ['1', 70],
        ['2', 25],
        ['3', 5],
      ]),
    );
    const counts = { 1: 0, 2: 0, 3: 0 } as Record<string, number>;
    for (const key of keys) counts[turns.ofKey(key, all)!]! += 1;
    expect(counts[1]! / keys.length).toBeCloseTo(0.7, 1);
    expect(counts[2]! / keys.length).toBeCloseTo(0.25, 1);
    expect(counts[3]! / keys.length).toBeCloseTo(0.05, 1);
  });

  it('move only from the versions that lose shares', () => {
    const before = new ShareTurns(
      new Map([
        ['1', 95],
        ['2', 5],
      ]),
    );
    const after = new ShareTurns(
      new Map([
        ['1', 90],
        ['2', 10],
      ]),
    );
    for (const key of keys) if (before.ofKey(key, all) === '2') expect(after.ofKey(key, all)).toBe('2');
  });

  it('stay where they are when another version cannot be used', () => {
    const turns = new ShareTurns(
      new Map([
        ['1', 40],
        ['2', 30],
        ['3', 30],
      ]),
    );
    const moved = { 1: 0, 3: 0 } as Record<string, number>;
    for (const key of keys) {
      const version = turns.ofKey(key, all)!;
      const now = turns.ofKey(key, (one) => one !== '2')!;
      if (version === '2') moved[now]! += 1;
      else expect(now).toBe(version);
    }
    expect(moved[1]! / (moved[1]! + moved[3]!)).toBeCloseTo(4 / 7, 1);
  });
});

describe('a share', () => {
  it('is a whole number of steps', () => {
    expect([toSteps(100), toSteps(0.005), toSteps(33.333)]).toEqual([100_000, 5, 33_333]);
  });
});
