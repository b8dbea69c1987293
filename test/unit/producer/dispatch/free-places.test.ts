import { describe, expect, it } from 'vitest';
import { FreePlaces } from '../../../../producer/dispatch/free-places.ts';
import { FakeClock } from '../../worker/engine/support/fake-clock.ts';

function bench(told: Record<string, number | undefined>) {
  const clock = new FakeClock();
  const places = new FreePlaces({ freePlaces: (worker) => told[worker] }, clock);
  const begin = () => {
    const [first = ''] = places.rank('m', '1', Object.keys(told));
    places.give('m', '1', first);
    return first;
  };
  return { clock, places, begin };
}

describe('FreePlaces', () => {
  it('puts the worker with the most free places first, less those that were given since', () => {
    const { begin } = bench({ a: 1, b: 4, c: 0 });
    expect(Array.from({ length: 5 }, begin).sort()).toEqual(['a', 'b', 'b', 'b', 'b']);
  });

  it('takes turns among equal workers, and where none tells', () => {
    for (const told of [
      { a: 3, b: 3, c: 3 },
      { a: undefined, b: undefined, c: undefined },
    ]) {
      const { begin } = bench(told);
      const chosen = Array.from({ length: 6 }, begin);
      expect(['a', 'b', 'c'].map((worker) => chosen.filter((each) => each === worker).length)).toEqual([2, 2, 2]);
    }
  });

  it('does not count twice what the worker has told of meanwhile', () => {
    const told = { a: 3, b: 1 };
    const { begin, clock } = bench(told);
    expect([begin(), begin()]).toEqual(['a', 'a']);
    told.a = 2; // of the two
    expect(['a', 'b']).toContain(begin());
    told.a = 3; // sequences have ended
    clock.advance(1500);
    expect([begin(), begin()]).toEqual(['a', 'a']);
  });
});
