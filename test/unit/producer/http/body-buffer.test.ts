import { describe, expect, test } from 'vitest';
import { BodyBuffer } from '../../../../producer/http/body-buffer.ts';
import { Pieces } from '../../../../shared/tensor/pieces.ts';
import { Admission } from '../../../../producer/service/admission.ts';

const MiB = 1024 * 1024;

function bodyBuffer(expectedBytes?: number, maxBytes = 64 * MiB, inPieces = false) {
  const admission = new Admission({ maxRequestsInFlight: 1, maxBytesInFlight: 64 * MiB });
  const tooLarge = (max: number) => new Error(`more than ${max}`);
  const body = new BodyBuffer({
    maxBytes,
    admission,
    tooLarge,
    inPieces,
    ...(expectedBytes === undefined ? {} : { expectedBytes }),
  });
  return { body, admission };
}

/** 100,000 bytes in pieces of 7,000. */
const BYTES = Buffer.from(Array.from({ length: 100_000 }, (_, i) => i % 251));
const PIECES = Array.from({ length: 15 }, (_, i) => BYTES.subarray(i * 7000, (i + 1) * 7000));

describe('the body of a request', () => {
  test.each([undefined, BYTES.length])(
    'is whole at the end, and ends at a multiple of eight (announced: %s)',
    (length) => {
      const { body, admission } = bodyBuffer(length);
      for (const piece of PIECES) expect(body.push(Buffer.from(piece))).toBeUndefined();
      const whole = body.join();
      expect(whole.equals(BYTES)).toBe(true);
      expect((whole.byteOffset + whole.length) % 8).toBe(0);
      expect(admission.bytesInFlight).toBe(BYTES.length);
      body.release();
      expect(admission.bytesInFlight).toBe(0);
    },
  );

  test('is not copied when it comes in one piece', () => {
    const { body } = bodyBuffer(BYTES.length);
    body.push(BYTES);
    expect(body.join()).toBe(BYTES);
  });

  test('needs its pieces no longer once an announced part of it is there', () => {
    const { body } = bodyBuffer(BYTES.length);
    for (const piece of PIECES) {
      const given = Buffer.from(piece);
      body.push(given);
      if (piece !== PIECES[0]) given.fill(0);
    }
    expect(body.join().equals(BYTES)).toBe(true);
  });

  test('that is announced as large takes no memory until some of it has come', () => {
    const before = process.memoryUsage().arrayBuffers;
    for (let i = 0; i < 16; i++) bodyBuffer(64 * MiB).body.push(Buffer.alloc(1000));
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(8 * MiB);
  });

  test('that ends early is as long as what came', () => {
    const { body } = bodyBuffer(BYTES.length);
    for (const piece of PIECES.slice(0, 9)) body.push(piece);
    expect(body.join().equals(BYTES.subarray(0, 63_000))).toBe(true);
  });

  test('that is taken in pieces is not copied', () => {
    const { body, admission } = bodyBuffer(BYTES.length, 64 * MiB, true);
    for (const piece of PIECES) body.push(piece);
    const pieces = body.pieces() as Pieces;
    expect(pieces).toBeInstanceOf(Pieces);
    expect(pieces.front(10).buffer).toBe(BYTES.buffer);
    expect(pieces.join().equals(BYTES)).toBe(true);
    expect(admission.bytesInFlight).toBe(BYTES.length);
  });

  test.each([
    ['is short', 1, 60_000],
    ['comes in very small chunks', 30, 100_000],
  ])('that is taken in pieces is joined all the same where it %s', (_why, chunk, length) => {
    const { body } = bodyBuffer(undefined, 64 * MiB, true);
    for (let at = 0; at < length; at += chunk) body.push(BYTES.subarray(at, Math.min(at + chunk, length)));
    expect((body.pieces() as Buffer).equals(BYTES.subarray(0, length))).toBe(true);
  });

  test('is refused beyond its limit', () => {
    const { body } = bodyBuffer(undefined, 10_000);
    expect(body.push(PIECES[0]!)).toBeUndefined();
    expect(body.push(PIECES[1]!)?.message).toBe('more than 10000');
  });
});
