import { execFileSync } from 'node:child_process';
import { pathToFileURL } from 'node:url';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ChurnMap, ChurnSet } from '../../../../shared/runtime/churn.ts';
import { ROOT } from '../../../support/process.ts';

describe('a ChurnMap', () => {
  it('holds what a Map holds, in the same order', () => {
    const steps = fc.array(fc.record({ key: fc.integer({ min: 0, max: 90 }), drop: fc.boolean() }), {
      maxLength: 1000,
      size: 'max',
    });
    fc.assert(
      fc.property(steps, (all) => {
        const ours = new ChurnMap<number, number>();
        const native = new Map<number, number>();
        all.forEach(({ key, drop }, index) => {
          if (drop) expect(ours.delete(key)).toBe(native.delete(key));
          else {
            ours.set(key, index);
            native.set(key, index);
          }
          expect([ours.size, ours.has(key), ours.get(key)]).toEqual([native.size, native.has(key), native.get(key)]);
        });
        expect([...ours]).toEqual([...native]);
        expect([...ours.values()]).toEqual([...native.values()]);
      }),
    );
  });

  it('is empty after clear', () => {
    const map = new ChurnMap<string, number>();
    for (const letter of 'abc') map.set(letter, 1);
    map.clear();
    expect([map.size, [...map]]).toEqual([0, []]);
  });
});

describe('a ChurnSet', () => {
  it('holds each thing once', () => {
    const set = new ChurnSet<string>();
    for (const letter of 'abba') set.add(letter);
    expect([set.size, [...set]]).toEqual([2, ['a', 'b']]);
    expect([set.delete('a'), set.delete('a'), [...set]]).toEqual([true, false, ['b']]);
  });

  it('keeps nothing alive that has left it, however many come and go', () => {
    expect(fullCollections()).toBeLessThan(5); // Node 20 with a native Set: more than ten
  });
});

/** How often all of the heap has to be collected while a million things come and go, 64 of them there at a time. */
function fullCollections(): number {
  const program = `
    import { constants, PerformanceObserver } from 'node:perf_hooks';
    import { ChurnSet } from ${JSON.stringify(pathToFileURL(join(ROOT, 'dist', 'shared', 'runtime', 'churn.js')).href)};
    let count = 0;
    new PerformanceObserver((list) => {
      for (const { detail } of list.getEntries()) if (detail.kind === constants.NODE_PERFORMANCE_GC_MAJOR) count += 1;
    }).observe({ type: 'gc' });
    const set = new ChurnSet();
    const thing = (n) => ({ n, data: new Array(50).fill(n) });
    const there = Array.from({ length: 64 }, (_, n) => thing(n));
    for (const one of there) set.add(one);
    let garbage;
    for (let n = 0; n < 2e6; n += 1) garbage = new Array(10).fill(n); // what is in the set becomes old
    for (let n = 0; n < 1e6; n += 1) {
      set.delete(there[n % 64]);
      set.add((there[n % 64] = thing(n)));
    }
    setTimeout(() => console.log(count), 100);`;
  return Number(execFileSync(process.execPath, ['--input-type=module', '-e', program], { encoding: 'utf8' }));
}
