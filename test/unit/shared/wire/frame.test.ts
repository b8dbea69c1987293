import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeFrame, encodeFrame } from '../../../../shared/wire/frame.ts';

const sections = fc.array(fc.uint8Array({ maxLength: 64 }), { maxLength: 8 });

describe('a frame', () => {
  it('comes back as it was, whatever is in it', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.string()), sections, (header, parts) => {
        const frame = decodeFrame(encodeFrame(header, parts));
        expect(frame.header).toEqual(JSON.parse(JSON.stringify(header)));
        expect(frame.sections.map((section) => [...section])).toEqual(parts.map((part) => [...part]));
      }),
    );
  });

  it('is read without copies', () => {
    const frame = encodeFrame({}, [Buffer.from('abc')]);
    expect(decodeFrame(frame).sections[0]!.buffer).toBe(frame.buffer);
  });

  it('is refused when it is cut short or longer than it says', () => {
    const frame = encodeFrame({ a: 1 }, [Buffer.from('abc'), Buffer.alloc(0)]);
    for (let length = 0; length < frame.byteLength; length += 1) {
      expect(() => decodeFrame(frame.subarray(0, length))).toThrow(/broken frame/);
    }
    expect(() => decodeFrame(Buffer.concat([frame, Buffer.of(0)]))).toThrow(/1 bytes follow/);
  });

  it('is refused or read within its bounds when any byte of it is changed', () => {
    const original = encodeFrame({ a: 1 }, [Buffer.from('abc')]);
    fc.assert(
      fc.property(fc.nat(original.byteLength - 1), fc.nat(255), (at, byte) => {
        const frame = Buffer.from(original);
        frame[at] = byte;
        try {
          for (const section of decodeFrame(frame).sections) expect(section.byteLength).toBeLessThan(frame.byteLength);
        } catch (error) {
          expect(error).toMatchObject({ code: 'INVALID_ARGUMENT' });
        }
      }),
    );
  });

  it('is refused at once when it announces more sections than there may be', () => {
    const frame = encodeFrame({}, []);
    frame.writeUInt32LE(0xffffffff, 8);
    expect(() => decodeFrame(frame)).toThrow(/announces 4294967295 sections/);
  });
});
