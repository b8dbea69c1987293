import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  BatchTuner,
  REVIEW_ANSWERS,
  REVIEW_MS,
  type Tuned,
} from '../../../../../worker/engine/schedule/batch-tuner.ts';
import { RunTimes } from '../../../../../worker/engine/schedule/run-times.ts';

interface Setting {
  auto?: boolean;
  goalMs?: number;
  maxRows?: number;
  delayMs?: number;
  msOf?: (rows: number) => number;
  sizes?: readonly number[];
}

function tunerOf({ auto = true, goalMs, maxRows = 16, delayMs = 0, msOf = (rows) => 10 + rows, sizes }: Setting = {}) {
  const changes: Tuned[] = [];
  const curve = (sizes ?? [1, 2, 4, 8, 16]).map((rows) => ({ rows, ms: msOf(rows) }));
  const tuner = new BatchTuner(
    {
      times: new RunTimes(curve),
      config: { maxRows, preferredRows: auto ? [] : [maxRows], delayMs },
      auto,
      maxDelayMs: delayMs > 0 ? delayMs : 50,
      goalMs,
      onChange: (tuned) => changes.push(tuned),
    },
    0,
  );
  let nowMs = 0;
  /** A window of answers after which the tuner looks. */
  const window = ({ rows = 8, runMs = 18, waitedMs = 1, latencyMs = 20 } = {}) => {
    for (let i = 0; i < REVIEW_ANSWERS; i += 1) {
      tuner.noteAnswer(latencyMs);
      tuner.noteRun(rows, runMs, waitedMs);
    }
    nowMs += REVIEW_MS;
    return tuner.review(nowMs);
  };
  return { tuner, changes, window };
}

describe('BatchTuner at load', () => {
  it('chooses rows and delay from the curve, and says why', () => {
    const { tuner } = tunerOf();
    expect(tuner.limits).toEqual({ maxRows: 16, preferredRows: [], delayMs: 26 });
    expect(tuner.reason).toBe('auto: a run of 16 takes 26 ms, the best time per row or near it');
  });

  it('plans with four fifths of the goal', () => {
    const { tuner } = tunerOf({ goalMs: 50 });
    expect(tuner.limits).toEqual({ maxRows: 8, preferredRows: [], delayMs: 4 });
    expect(tuner.reason).toContain('that keeps slo_p99_ms 50');
  });

  it('says when no run keeps the goal', () => {
    const { tuner } = tunerOf({ goalMs: 20 });
    expect(tuner.limits).toMatchObject({ maxRows: 1, delayMs: 0 });
    expect(tuner.reason).toBe('auto: a run of 1 takes 11 ms, too long for slo_p99_ms 20');
    expect(tunerOf({ goalMs: 5 }).tuner.limits).toMatchObject({ maxRows: 16, delayMs: 0 });
  });

  it('never waits longer than the config allows', () => {
    expect(tunerOf({ delayMs: 3 }).tuner.limits.delayMs).toBe(3);
  });

  it('keeps the config where nothing could be measured', () => {
    const { tuner } = tunerOf({ sizes: [], delayMs: 7 });
    expect(tuner.limits).toMatchObject({ maxRows: 16, delayMs: 7 });
    expect(tuner.reason).toContain('no run could be measured');
  });

  it('bounds only the delay without auto', () => {
    const { tuner } = tunerOf({ auto: false, goalMs: 80, delayMs: 30 });
    expect(tuner.limits).toEqual({ maxRows: 16, preferredRows: [16], delayMs: 12 });
    expect(tuner.reason).toBe('the delay leaves room for two runs within slo_p99_ms 80');
    expect(tunerOf({ auto: false, goalMs: 500, delayMs: 30 }).tuner).toMatchObject({
      limits: { delayMs: 30 },
      reason: '',
    });
  });
});

describe('BatchTuner while the model runs', () => {
  it('looks only after enough answers and enough time', () => {
    const { tuner } = tunerOf({ goalMs: 60 });
    tuner.noteRun(8, 18, 500);
    for (let i = 0; i < REVIEW_ANSWERS - 1; i += 1) tuner.noteAnswer(500);
    expect(tuner.review(10 * REVIEW_MS)).toBeUndefined();
    tuner.noteAnswer(500);
    expect(tuner.review(REVIEW_MS - 1)).toBeUndefined();
    expect(tuner.review(REVIEW_MS)?.maxRows).toBe(16);
  });

  it('takes fewer rows once runs are slower than at load, when two looks agree', () => {
    const { tuner, changes, window } = tunerOf({ goalMs: 50 });
    expect(window({ runMs: 36, latencyMs: 45 })).toBeUndefined();
    expect(window({ runMs: 36, latencyMs: 45 })?.maxRows).toBeLessThan(8);
    expect(changes).toEqual([{ limits: tuner.limits, reason: tuner.reason }]);
  });

  it('plans with less while the p99 misses the goal, and with more again when there is room', () => {
    const { tuner, window } = tunerOf({ goalMs: 90, msOf: (rows) => 5 + rows });
    expect(tuner.limits.maxRows).toBe(16);
    for (let i = 0; i < 8; i += 1) window({ runMs: 13, latencyMs: 120 });
    const least = tuner.limits;
    expect(least.maxRows).toBeLessThan(16);
    for (let i = 0; i < 30; i += 1) window({ runMs: 13, latencyMs: 10 });
    expect(tuner.limits.maxRows).toBe(16);
  });

  it('does not plan with less for one look that misses the goal, nor where it is the line that misses it', () => {
    const { tuner, window } = tunerOf({ goalMs: 90, msOf: (rows) => 5 + rows });
    const before = tuner.limits;
    for (let i = 0; i < 10; i += 1) {
      window({ rows: 16, runMs: 21, latencyMs: 120 });
      window({ rows: 16, runMs: 21, latencyMs: 80 });
    }
    expect(tuner.limits).toEqual(before);
    for (let i = 0; i < 10; i += 1) window({ rows: 16, runMs: 21, waitedMs: 500, latencyMs: 500 });
    for (let i = 0; i < 3; i += 1) window({ rows: 16, runMs: 21, latencyMs: 80 });
    expect(tuner.limits).toEqual(before);
  });

  it('takes the best time per row when full runs are late, and goes back when runs are small again', () => {
    const { tuner, window } = tunerOf({ goalMs: 50 });
    expect(window({ waitedMs: 1000, latencyMs: 1000 })).toMatchObject({ maxRows: 16 });
    expect(tuner.reason).toContain('the load is too high for slo_p99_ms 50');
    for (let i = 0; i < 5; i += 1) expect(window({ rows: 12, runMs: 22, latencyMs: 40 })).toBeUndefined();
    expect(window({ rows: 5, runMs: 15, latencyMs: 30 })).toMatchObject({ maxRows: 8 });
  });

  it('does not move for small changes of the delay', () => {
    const { changes, window } = tunerOf();
    for (let i = 0; i < 5; i += 1) window({ rows: 16, runMs: 28 });
    expect(changes).toEqual([]);
  });

  it('stays within the config, for any course of events', () => {
    const look = fc.record({
      rows: fc.integer({ min: 1, max: 16 }),
      runMs: fc.double({ min: 0, max: 5000, noNaN: true }),
      waitedMs: fc.double({ min: 0, max: 5000, noNaN: true }),
      latencyMs: fc.double({ min: 0, max: 10_000, noNaN: true }),
    });
    const setting = fc.record(
      {
        auto: fc.boolean(),
        goalMs: fc.double({ min: 1, max: 1000, noNaN: true }),
        maxRows: fc.integer({ min: 2, max: 16 }),
        delayMs: fc.integer({ min: 0, max: 40 }),
      },
      { requiredKeys: ['auto', 'maxRows', 'delayMs'] },
    );
    fc.assert(
      fc.property(setting, fc.array(look, { maxLength: 20 }), (chosen, looks) => {
        const { tuner, window } = tunerOf(chosen);
        const mostMs = chosen.delayMs > 0 ? chosen.delayMs : chosen.auto ? 50 : 0;
        for (const each of [undefined, ...looks]) {
          if (each) window(each);
          const { maxRows, delayMs } = tuner.limits;
          expect(maxRows).toBeGreaterThanOrEqual(1);
          expect(maxRows).toBeLessThanOrEqual(chosen.maxRows);
          expect(delayMs).toBeGreaterThanOrEqual(0);
          expect(delayMs).toBeLessThanOrEqual(mostMs);
          if (!chosen.auto) expect(maxRows).toBe(chosen.maxRows);
        }
      }),
      { numRuns: 60 },
    );
  });
});
