import { deflateSync } from 'node:zlib';
import sharp from 'sharp';
import { beforeAll, describe, expect, test } from 'vitest';
import { configureSharp, DEFAULT_IMAGE_LIMITS } from '../../../../../producer/preprocess/image/decode.ts';
import { asDecoded, pngChunk, pngEnd, pngHeader, prepare, quadrantPicture } from './image-kit.ts';

beforeAll(configureSharp);

describe('bombs are refused by what they declare', () => {
  test('a PNG header of 65000 x 65000 in 70 bytes', async () => {
    const bytes = Buffer.concat([
      pngHeader(65000, 65000, 8, 2),
      pngChunk('IDAT', deflateSync(Buffer.alloc(16))),
      pngEnd(),
    ]);
    await expect(prepare(bytes)).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: 'the picture is 65000 x 65000 pixels, at most 50000000 pixels allowed',
    });
  });

  test('a JPEG header of 65000 x 65000', async () => {
    const jpeg = await quadrantPicture().jpeg().toBuffer();
    const frame = jpeg.indexOf(Buffer.from([0xff, 0xc0]));
    jpeg.writeUInt16BE(65000, frame + 5);
    jpeg.writeUInt16BE(65000, frame + 7);
    await expect(prepare(jpeg)).rejects.toMatchObject({ message: expect.stringContaining('65000 x 65000') as string });
  });

  test('a hundred at once take no memory to speak of', async () => {
    const bytes = Buffer.concat([
      pngHeader(50_000, 50_000, 8, 2),
      pngChunk('IDAT', deflateSync(Buffer.alloc(1e6))),
      pngEnd(),
    ]);
    const before = process.memoryUsage().rss;
    const results = await Promise.allSettled(Array.from({ length: 100 }, () => prepare(bytes)));
    expect(results.every(({ status }) => status === 'rejected')).toBe(true);
    expect(process.memoryUsage().rss - before).toBeLessThan(100 * 1024 * 1024);
  });

  test('more bytes than allowed', async () => {
    const png = await quadrantPicture().png().toBuffer();
    const limits = { ...DEFAULT_IMAGE_LIMITS, maxBytes: png.length - 1 };
    await expect(prepare(png, asDecoded(), limits)).rejects.toMatchObject({
      message: `the picture has ${png.length} bytes, at most ${png.length - 1} allowed`,
    });
  });

  test('a GIF whose frame lies outside its canvas', async () => {
    const gif = await quadrantPicture().gif().toBuffer();
    const descriptor = gif.indexOf(0x2c, 13);
    gif.writeUInt16LE(60_000, descriptor + 1);
    gif.writeUInt16LE(60_000, descriptor + 3);
    const result = await prepare(gif).then(
      ({ shape }) => shape,
      (error: unknown) => error,
    );
    if (Array.isArray(result)) expect(result).toEqual([1, 3, 20, 40]);
    else expect(result).toMatchObject({ code: 'INVALID_ARGUMENT' });
  });
});

describe('broken files', () => {
  test.each(['jpeg', 'png', 'webp', 'gif', 'tiff'] as const)('a %s that was cut off is refused', async (format) => {
    const noise = Buffer.from(Array.from({ length: 64 * 64 * 3 }, (_, i) => (i * 7919) % 251));
    const whole = await sharp(noise, { raw: { width: 64, height: 64, channels: 3 } })
      .toFormat(format)
      .toBuffer();
    await expect(prepare(whole.subarray(0, Math.floor(whole.length / 2)))).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: expect.stringMatching(/picture cannot be decoded: /) as string,
    });
  });

  test('one that was cut off is decoded as far as it goes where the model says so', async () => {
    const noise = Buffer.from(Array.from({ length: 64 * 64 * 3 }, (_, i) => (i * 7919) % 251));
    const whole = await sharp(noise, { raw: { width: 64, height: 64, channels: 3 } })
      .jpeg()
      .toBuffer();
    const half = whole.subarray(0, Math.floor(whole.length / 2));
    expect((await prepare(half, asDecoded({ image_on_corrupt: 'tolerate' }))).shape).toEqual([1, 3, 64, 64]);
  });

  test('a signature with nothing behind it', async () => {
    for (const head of [
      '\xff\xd8\xff',
      '\x89PNG\r\n\x1a\n',
      'GIF89a',
      'RIFF\0\0\0\0WEBP',
      'II*\0',
      '\0\0\0\x20ftypavif',
    ]) {
      await expect(prepare(Buffer.from(head, 'latin1'))).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
    }
  });

  test('errors name no path', async () => {
    const error = await prepare(Buffer.from('\xff\xd8\xff\xe0junk', 'latin1')).catch((e: unknown) => e as Error);
    expect((error as Error).message).not.toMatch(/\/|\\|node_modules/);
  });
});
