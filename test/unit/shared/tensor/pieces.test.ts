import { describe, expect, test } from 'vitest';
import { Pieces } from '../../../../shared/tensor/pieces.ts';

/** Numbers from 0 on, in parts of memory of their own. */
function piecesOf(...lengths: number[]): Pieces {
  let next = 0;
  const parts = lengths.map((length) => {
    const part = Buffer.allocUnsafeSlow(length);
    for (let at = 0; at < length; at += 1) part[at] = next++ & 0xff;
    return part;
  });
  return new Pieces(parts, next);
}

const numbers = (from: number, to: number) =>
  Buffer.from(Array.from({ length: to - from }, (_, i) => (from + i) & 0xff));

function bytesOf(bytes: Buffer | Pieces): Buffer {
  if (!(bytes instanceof Pieces)) return bytes;
  const target = Buffer.alloc(bytes.length);
  bytes.copyTo(target, 0);
  return target;
}

describe('Pieces', () => {
  test('every range is what the whole would give', () => {
    for (let from = 0; from <= 12; from += 1) {
      for (let to = from; to <= 12; to += 1) {
        const range = piecesOf(3, 1, 5, 3).subarray(from, to);
        expect(range.length).toBe(to - from);
        expect(bytesOf(range)).toEqual(numbers(from, to));
        const joined = piecesOf(3, 1, 5, 3);
        joined.join();
        expect(bytesOf(joined.subarray(from, to))).toEqual(numbers(from, to));
      }
    }
  });

  test('a range of a range is one of the whole', () => {
    const outer = piecesOf(4, 4, 4).subarray(2, 11) as Pieces;
    expect(bytesOf(outer.subarray(1, 8))).toEqual(numbers(3, 10));
  });

  test('a range in one piece is a view of it, one that spans two is pieces', () => {
    const part = Buffer.from([1, 2, 3]);
    const pieces = new Pieces([part, Buffer.from([4])], 4);
    const view = pieces.subarray(1, 3) as Buffer;
    expect(view.buffer).toBe(part.buffer);
    expect(pieces.subarray(1, 4)).toBeInstanceOf(Pieces);
  });

  test('joins once, aligned, and copies from the whole afterwards', () => {
    const pieces = piecesOf(5, 6);
    expect(pieces.isJoined).toBe(false);
    const whole = pieces.join();
    expect(pieces.isJoined).toBe(true);
    expect(pieces.join()).toBe(whole);
    expect(whole.byteOffset % 8).toBe(0);
    expect(whole).toEqual(numbers(0, 11));
    expect(bytesOf(pieces)).toEqual(whole);
  });

  test('the front is a view where the first piece holds it, and a copy where it does not', () => {
    expect(piecesOf(4, 4).front(4).subarray(0, 4)).toEqual(numbers(0, 4));
    expect(piecesOf(4, 4).front(6).subarray(0, 6)).toEqual(numbers(0, 6));
  });

  test('joining gives up whole pieces at once, and leaves those that others may look at', () => {
    const LARGE = 64 * 1024;
    const own = Buffer.allocUnsafeSlow(LARGE);
    const shared = Buffer.allocUnsafeSlow(LARGE + 8);
    new Pieces([own, shared.subarray(8)], 2 * LARGE).join();
    expect(own.byteLength).toBe(0);
    expect(shared.byteLength).toBe(LARGE + 8);
  });

  test('is empty once it is freed', () => {
    const pieces = piecesOf(70_000, 70_000);
    pieces.free();
    expect(pieces.join().length).toBe(0);
    const joined = piecesOf(70_000, 70_000);
    const whole = joined.join();
    joined.free();
    expect(whole.byteLength).toBe(0);
  });
});
