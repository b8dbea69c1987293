import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { FrameDecoder, messageOf } from '../../../../../producer/facade/triton-grpc/frame-decoder.ts';
import { Pieces } from '../../../../../shared/tensor/pieces.ts';
import { frame, frameHead } from '../../../../support/raw-grpc.ts';

const MiB = 1024 * 1024;

function decode(decoder: FrameDecoder, pieces: readonly Buffer[]): Buffer[] {
  return pieces.flatMap((piece) => decoder.write(piece));
}

function pieces(bytes: Buffer, length: number): Buffer[] {
  return Array.from({ length: Math.ceil(bytes.length / length) }, (_, i) =>
    bytes.subarray(i * length, (i + 1) * length),
  );
}

describe('a frame decoder', () => {
  test('gives the messages with their heads, however they are cut', () => {
    const message = fc.record({ bytes: fc.uint8Array({ maxLength: 300 }), isCompressed: fc.boolean() });
    fc.assert(
      fc.property(fc.array(message, { maxLength: 8 }), fc.array(fc.nat(400), { maxLength: 40 }), (messages, cuts) => {
        const frames = messages.map(({ bytes, isCompressed }) => frame(bytes, isCompressed));
        const all = Buffer.concat(frames);
        const at = [0, ...cuts.map((cut) => Math.min(cut * 7, all.length)).sort((a, b) => a - b), all.length];
        const cut = at.slice(1).map((end, i) => all.subarray(at[i], end));
        expect(decode(new FrameDecoder(MiB), cut)).toEqual(frames);
      }),
      { numRuns: 200 },
    );
  });

  test.each([0, 1, 7, 8, 100, 4096, 70_000, 600_001])('ends a message of %i bytes at a multiple of eight', (length) => {
    const bytes = Buffer.alloc(length, 3);
    const [got] = decode(new FrameDecoder(MiB), pieces(frame(bytes), 16_384));
    expect(got!.subarray(5).equals(bytes)).toBe(true);
    expect((got!.byteOffset + got!.length) % 8).toBe(0);
  });

  test('keeps nothing of what it was given', () => {
    const decoder = new FrameDecoder(MiB);
    const given = pieces(frame(Buffer.alloc(1000, 1)), 300);
    const got = given.flatMap((piece) => {
      const messages = decoder.write(piece);
      if (messages.length === 0 && piece !== given[0]) piece.fill(0);
      return messages;
    });
    expect(got[0]!.subarray(305).every((byte) => byte === 1)).toBe(true);
  });

  test('leaves a large message in pieces where it may, and gives its head', () => {
    const bytes = Buffer.from(Array.from({ length: 200_001 }, (_, i) => i % 251));
    const cut = pieces(Buffer.concat([frame(bytes, true), frame(bytes), frame(Buffer.alloc(9, 1))]), 16_384);
    const got = decode(new FrameDecoder(MiB, true), cut);
    expect(got.map(({ length }) => length)).toEqual([5, 5, 14]);
    expect(got.map((message) => message[0])).toEqual([1, 0, 0]);
    for (const head of got.slice(0, 2)) {
      const message = messageOf(head.subarray(5)) as Pieces;
      expect(message).toBeInstanceOf(Pieces);
      expect((message.subarray(0, 100) as Buffer).buffer).toBe(cut[0]!.buffer);
      expect(message.join().equals(bytes)).toBe(true);
    }
    const small = got[2]!.subarray(5);
    expect(messageOf(small)).toBe(small);
  });

  test('joins a message that comes in very small pieces', () => {
    const bytes = Buffer.from(Array.from({ length: 70_000 }, (_, i) => i % 251));
    const [got] = decode(new FrameDecoder(MiB, true), pieces(frame(bytes), 100));
    expect(got!.subarray(5).equals(bytes)).toBe(true);
  });

  test('takes a message of the largest size and refuses one that is announced as larger', () => {
    expect(decode(new FrameDecoder(10), [frame(Buffer.alloc(10))])).toHaveLength(1);
    expect(() => new FrameDecoder(10).write(frameHead(11))).toThrow('Received message larger than max (11 vs 10)');
  });

  test('takes no memory for a message of which hardly anything has come', () => {
    const before = process.memoryUsage().arrayBuffers;
    const decoders = Array.from({ length: 16 }, () => new FrameDecoder(2 ** 31));
    for (const decoder of decoders) decoder.write(Buffer.concat([frameHead(64 * MiB), Buffer.alloc(1000)]));
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(8 * MiB);
  });
});
