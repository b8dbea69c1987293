import { markAsUntransferable } from 'node:worker_threads';
import { describe, expect, test } from 'vitest';
import { freeMemory } from '../../../../shared/tensor/free-memory.ts';

const LARGE = 100_000;

function unmovable(data: Uint8Array): Uint8Array {
  markAsUntransferable(data.buffer);
  return data;
}

describe('freeMemory', () => {
  test('takes the memory of a large buffer away', () => {
    const data = Buffer.allocUnsafe(LARGE);
    freeMemory(data);
    expect(data.length).toBe(0);
  });

  test('does so where the data has a short head or end beside it', () => {
    const frame = new Uint8Array(LARGE + 12);
    freeMemory(frame.subarray(5, LARGE + 5));
    expect(frame.length).toBe(0);
  });

  test.each([
    ['small memory', () => new Uint8Array(1000)],
    ['a part of some memory', () => new Uint8Array(2 * LARGE).subarray(0, LARGE)],
    ['shared memory', () => new Uint8Array(new SharedArrayBuffer(LARGE))],
    ['memory that may not be moved', () => unmovable(new Uint8Array(LARGE))],
  ])('leaves %s alone', (_what, make) => {
    const data = make();
    const { length } = data;
    freeMemory(data);
    expect(data.length).toBe(length);
  });
});
