import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { RunTimes } from '../../../../../worker/engine/schedule/run-times.ts';

const times = () => new RunTimes([1, 2, 4, 8].map((rows) => ({ rows, ms: 10 + rows })));

function note(of: RunTimes, rows: number, ms: number, runs: number): void {
  for (let run = 0; run < runs; run += 1) of.note(rows, ms);
}

describe('RunTimes', () => {
  it('says what was measured, straight lines between the sizes, and the cost of a row beyond them', () => {
    expect([1, 2, 3, 8, 16].map((rows) => times().at(rows))).toEqual([11, 12, 13, 18, 36]);
  });

  it('says 0 where nothing is known', () => {
    const nothing = new RunTimes([]);
    nothing.note(4, 10);
    expect(nothing.at(4)).toBe(0);
  });

  it('follows what runs take, after a few of them', () => {
    const known = times();
    note(known, 4, 28, 7);
    expect(known.at(4)).toBe(14);
    note(known, 4, 28, 1);
    expect(known.at(4)).toBeCloseTo(28);
  });

  it('takes a size that is not run for as much slower as the nearest that is', () => {
    const known = times();
    note(known, 4, 28, 20);
    note(known, 1, 11, 20);
    expect(known.at(8)).toBeCloseTo(36);
    expect(known.at(2)).toBeCloseTo(12);
  });

  it('forgets what was measured of a size that is not run any more, bit by bit', () => {
    const known = times();
    note(known, 8, 18 * 20, 20);
    expect(known.at(8)).toBeGreaterThan(18 * 10);
    for (let review = 0; review < 30; review += 1) {
      note(known, 4, 14, 20);
      known.review();
    }
    expect(known.at(8)).toBeLessThan(18 * 1.1);
    expect(known.at(4)).toBeCloseTo(14);
  });

  it('takes a size that is not run for as slow as the smaller one that is, and not as a larger one', () => {
    const known = times();
    for (const rows of [1, 4, 8]) note(known, rows, 10 + rows, 20);
    known.review();
    for (let review = 0; review < 30; review += 1) {
      note(known, 4, 14 * 3, 20);
      known.review();
    }
    expect(known.at(8)).toBeGreaterThan(18 * 2.5);
    expect(known.at(1)).toBeCloseTo(11);
  });

  it('believes a size that was tried again and is slow for longer each time', () => {
    const known = times();
    note(known, 8, 18 * 4, 20);
    const waits: number[] = [];
    for (let trial = 0; trial < 4; trial += 1) {
      let reviews = 0;
      for (; known.at(8) > 18 * 1.2 && reviews < 1000; reviews += 1) {
        note(known, 4, 14, 20);
        known.review();
      }
      waits.push(reviews);
      note(known, 8, 18 * 4, 20);
      known.review();
    }
    expect(waits).toEqual([...waits].sort((a, b) => a - b));
    expect(waits[3]).toBeGreaterThan(2 * waits[1]!);
  });

  it('is moved little by one slow run', () => {
    const known = times();
    note(known, 8, 18, 50);
    known.note(8, 180);
    expect(known.at(8)).toBeLessThan(2 * 18);
  });

  it('stays within 64 times the curve, whatever is noted', () => {
    const amount = fc.double({ noNaN: true, min: -10, max: 1e9 });
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.integer({ min: 0, max: 20 }), amount), { maxLength: 100 }), (noted) => {
        const known = times();
        for (const [rows, ms] of noted) known.note(rows, ms);
        for (const rows of [1, 2, 4, 8]) {
          expect(known.at(rows)).toBeGreaterThanOrEqual((10 + rows) / 64 - 1e-9);
          expect(known.at(rows)).toBeLessThanOrEqual((10 + rows) * 64 + 1e-6);
        }
      }),
    );
  });
});
