import { describe, expect, it } from 'vitest';
import { AGED_AFTER_MS, AGED_TURN_EVERY, AgedTurns } from '../../../../../worker/engine/schedule/aged-turns.ts';

describe('AgedTurns', () => {
  it('gives the queue with the oldest request a turn once that has aged, not before', () => {
    const turns = new AgedTurns();
    const queues = [{ oldestMs: 500 }, { oldestMs: 200 }, { oldestMs: 900 }];
    expect(turns.take(queues, 200 + AGED_AFTER_MS - 1)).toBeUndefined();
    expect(turns.take(queues, 200 + AGED_AFTER_MS)).toBe(queues[1]);
  });

  it('gives no second turn before so many runs', () => {
    const turns = new AgedTurns();
    const queues = [{ oldestMs: 0 }];
    expect(turns.take(queues, AGED_AFTER_MS)).toBe(queues[0]);
    for (let run = 1; run <= AGED_TURN_EVERY; run += 1) {
      expect(turns.take(queues, 10 * AGED_AFTER_MS)).toBeUndefined();
      turns.noteRun();
    }
    expect(turns.take(queues, 10 * AGED_AFTER_MS)).toBe(queues[0]);
  });

  it('looks again only when somebody can have aged', () => {
    const turns = new AgedTurns();
    let looks = 0;
    const queues = {
      *[Symbol.iterator]() {
        looks += 1;
        yield { oldestMs: 100 };
      },
    };
    for (let nowMs = 100; nowMs < 100 + AGED_AFTER_MS; nowMs += 100) turns.take(queues, nowMs);
    expect(looks).toBe(1);
    expect(turns.take(queues, 100 + AGED_AFTER_MS)).toEqual({ oldestMs: 100 });
  });

  it('gives nobody a turn where nobody waits', () => {
    const queues: { oldestMs: number }[] = [];
    expect(new AgedTurns().take(queues, 1e9)).toBeUndefined();
  });
});
