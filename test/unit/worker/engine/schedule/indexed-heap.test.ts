import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { IndexedHeap } from '../../../../../worker/engine/schedule/indexed-heap.ts';

interface Entry {
  value: number;
  heapIndex: number;
}

const action = fc.oneof(
  fc.record({ kind: fc.constant('push' as const), value: fc.nat({ max: 50 }) }),
  fc.record({ kind: fc.constant('remove' as const), at: fc.nat() }),
  fc.record({ kind: fc.constant('update' as const), at: fc.nat(), value: fc.nat({ max: 50 }) }),
);

describe('IndexedHeap', () => {
  it('has the smallest entry first, whatever was pushed, changed and removed', () => {
    fc.assert(
      fc.property(fc.array(action, { maxLength: 200 }), (actions) => {
        const heap = new IndexedHeap<Entry>((a, b) => a.value < b.value);
        const entries: Entry[] = [];
        for (const one of actions) {
          if (one.kind === 'push') {
            const entry = { value: one.value, heapIndex: -1 };
            entries.push(entry);
            heap.push(entry);
          } else if (entries.length > 0) {
            const entry = entries[one.at % entries.length]!;
            if (one.kind === 'remove') {
              heap.remove(entry);
              entries.splice(entries.indexOf(entry), 1);
              expect(entry.heapIndex).toBe(-1);
            } else {
              entry.value = one.value;
              heap.update(entry);
            }
          }
          const smallest = entries.length === 0 ? undefined : Math.min(...entries.map(({ value }) => value));
          expect(heap.first?.value).toBe(smallest);
        }
        const drained: number[] = [];
        for (let first = heap.first; first; first = heap.first) {
          drained.push(first.value);
          heap.remove(first);
        }
        expect(drained).toEqual(entries.map(({ value }) => value).sort((a, b) => a - b));
      }),
    );
  });

  it('leaves an entry alone that is not in it', () => {
    const heap = new IndexedHeap<Entry>((a, b) => a.value < b.value);
    const inside = { value: 2, heapIndex: -1 };
    heap.push(inside);
    heap.remove({ value: 1, heapIndex: -1 });
    expect(heap.first).toBe(inside);
  });
});
