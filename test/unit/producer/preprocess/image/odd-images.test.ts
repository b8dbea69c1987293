import { readFileSync } from 'node:fs';
import { crc32, deflateSync } from 'node:zlib';
import sharp from 'sharp';
import { beforeAll, describe, expect, test } from 'vitest';
import { configureSharp, DEFAULT_IMAGE_LIMITS } from '../../../../../producer/preprocess/image/decode.ts';
import { parseImagePipeline, type ImagePipeline } from '../../../../../producer/preprocess/image/image-pipeline.ts';
import { prepareImage } from '../../../../../producer/preprocess/image/prepare-image.ts';
import { ResampleKernel } from '../../../../../producer/preprocess/image/resample-kernel.ts';
import { modelWithFiles } from '../../../../support/text-files-model.ts';

beforeAll(configureSharp);

const kernel = new ResampleKernel();

/** Pixels as they are, in any size: what the decoder gave. */
function asDecoded(parameters: Record<string, string> = {}): ImagePipeline {
  const config = {
    image_processor_type: 'ViTImageProcessor',
    do_resize: false,
    do_rescale: false,
    do_normalize: false,
  };
  const model = modelWithFiles({ inputs: { x: ['FP32', 3, -1, -1] }, parameters });
  return parseImagePipeline(JSON.stringify(config), model);
}

function clip(parameters: Record<string, string> = {}, channels: 1 | 3 = 3): ImagePipeline {
  const config = {
    image_processor_type: 'CLIPImageProcessor',
    size: 256,
    resample: 3,
    do_center_crop: true,
    crop_size: 224,
    image_mean: 0.5,
    image_std: 0.5,
  };
  const model = modelWithFiles({ inputs: { x: ['FP32', channels, 224, 224] }, parameters });
  return parseImagePipeline(JSON.stringify(config), model);
}

const prepare = (bytes: Uint8Array, pipeline = asDecoded(), limits = DEFAULT_IMAGE_LIMITS) =>
  prepareImage(bytes, pipeline, limits, kernel);

const RED = [254, 0, 0];
const GREEN = [0, 128, 1];
const BLUE = [0, 0, 255];
const WHITE = [255, 255, 255];

/** 40 x 20: red and green above, blue and white below. */
function quadrants(): Buffer {
  const raw = Buffer.alloc(40 * 20 * 3);
  for (let y = 0; y < 20; y++) {
    for (let x = 0; x < 40; x++) {
      const colour = y < 10 ? (x < 20 ? RED : GREEN) : x < 20 ? BLUE : WHITE;
      raw.set(colour, (y * 40 + x) * 3);
    }
  }
  return raw;
}

const quadrantPicture = () => sharp(quadrants(), { raw: { width: 40, height: 20, channels: 3 } });

describe('EXIF orientation', () => {
  // Where the stored quadrants (red, green, blue, white) come to lie: top left, top right, bottom left, bottom right.
  const [R, G, B, W] = [RED, GREEN, BLUE, WHITE];
  test.each([
    [0, [R, G, B, W]],
    [1, [R, G, B, W]],
    [2, [G, R, W, B]],
    [3, [W, B, G, R]],
    [4, [B, W, R, G]],
    [5, [R, B, G, W]],
    [6, [B, R, W, G]],
    [7, [W, G, B, R]],
    [8, [G, W, R, B]],
    [9, [R, G, B, W]],
  ])('%d comes out upright', async (orientation, corners) => {
    const plain = await quadrantPicture().jpeg({ quality: 100, chromaSubsampling: '4:4:4' }).withMetadata().toBuffer();
    const { shape, data } = await prepare(withOrientation(plain, orientation));
    const turned = orientation >= 5 && orientation <= 8;
    const [width, height] = turned ? [20, 40] : [40, 20];
    expect(shape).toEqual([1, 3, height, width]);
    const at = (x: number, y: number) => [...data.subarray((y * width + x) * 3, (y * width + x) * 3 + 3)];
    const [left, right, top, bottom] = [width / 4, (width * 3) / 4, height / 4, (height * 3) / 4];
    const found = [at(left, top), at(right, top), at(left, bottom), at(right, bottom)];
    found.forEach((colour, corner) => {
      colour.forEach((value, channel) => expect(Math.abs(value - corners[corner]![channel]!)).toBeLessThanOrEqual(3));
    });
  });
});

describe('kinds of pixels all become RGB', () => {
  test('gray, gray with alpha, RGB and RGBA of 8 bits', async () => {
    for (const channels of [1, 2, 3, 4] as const) {
      const raw = Buffer.alloc(16 * 8 * channels, 77);
      const png = await sharp(raw, { raw: { width: 16, height: 8, channels } })
        .png()
        .toBuffer();
      const { shape, data } = await prepare(png);
      expect(shape).toEqual([1, 3, 8, 16]);
      expect(new Set(data)).toEqual(new Set([77]));
    }
  });

  test.each([1, 2, 4] as const)('gray of %d bits', async (bits) => {
    const { data } = await prepare(grayPng(bits, [0, 2 ** bits - 1]));
    expect([...data]).toEqual([0, 0, 0, 255, 255, 255]);
  });

  test('16 bits are scaled, not cut off', async () => {
    const { data } = await prepare(grayPng(16, [0, 257 * 100, 65535]));
    expect([...data]).toEqual([0, 0, 0, 100, 100, 100, 255, 255, 255]);
  });

  test('a palette with transparency', async () => {
    const png = await quadrantPicture().ensureAlpha(0.5).png({ palette: true }).toBuffer();
    const { shape, data } = await prepare(png);
    expect(shape).toEqual([1, 3, 20, 40]);
    expect([...data.subarray(0, 3)]).toEqual(RED);
  });

  test('alpha is dropped and hidden colours stay, as in Pillow', async () => {
    const raw = Buffer.from([10, 20, 30, 0, 40, 50, 60, 255]);
    const png = await sharp(raw, { raw: { width: 2, height: 1, channels: 4 } })
      .png()
      .toBuffer();
    expect([...(await prepare(png)).data]).toEqual([10, 20, 30, 40, 50, 60]);
  });

  test('a TIFF of gray in 16 bits and one with a fourth channel', async () => {
    const raw = Buffer.alloc(6 * 4 * 4, 9);
    const tiff = await sharp(raw, { raw: { width: 6, height: 4, channels: 4 } })
      .tiff()
      .toBuffer();
    expect((await prepare(tiff)).shape).toEqual([1, 3, 4, 6]);
    const gray = await sharp(raw, { raw: { width: 6, height: 4, channels: 1 } })
      .toColourspace('grey16')
      .tiff()
      .toBuffer();
    expect((await prepare(gray)).shape).toEqual([1, 3, 4, 6]);
  });

  test('CMYK', async () => {
    const jpeg = await quadrantPicture().toColourspace('cmyk').jpeg().toBuffer();
    expect((await prepare(jpeg)).shape).toEqual([1, 3, 20, 40]);
  });

  test('WebP, AVIF and GIF', async () => {
    for (const format of ['webp', 'avif', 'gif'] as const) {
      const bytes = await quadrantPicture().toFormat(format, { lossless: true }).toBuffer();
      expect((await prepare(bytes)).shape).toEqual([1, 3, 20, 40]);
    }
  });

  test('a model of one channel gets gray', async () => {
    const png = await quadrantPicture().png().toBuffer();
    const { shape, data, pixels } = await prepare(png, clip({}, 1));
    expect(shape).toEqual([1, 1, 224, 224]);
    expect(data).toHaveLength(224 * 224);
    expect(pixels?.mean).toHaveLength(1);
  });
});

describe('animations give their first frame', () => {
  const frames = Buffer.concat([
    Buffer.alloc(8 * 6 * 3, 200),
    Buffer.alloc(8 * 6 * 3, 20),
    Buffer.alloc(8 * 6 * 3, 90),
  ]);
  const animation = () => sharp(frames, { raw: { width: 8, height: 18, channels: 3, pageHeight: 6 } });

  test.each(['gif', 'webp'] as const)('%s', async (format) => {
    const options = format === 'webp' ? { lossless: true } : {};
    const bytes = await animation().toFormat(format, options).toBuffer();
    expect((await sharp(bytes).metadata()).pages).toBe(3);
    const { shape, data } = await prepare(bytes);
    expect(shape).toEqual([1, 3, 6, 8]);
    expect(Math.abs(data[0]! - 200)).toBeLessThanOrEqual(1);
  });

  test('a thousand frames count as one', async () => {
    const many = Buffer.alloc(64 * 64 * 3 * 100, 1);
    for (let i = 0; i < 100; i++) many.fill(i, i * 64 * 64 * 3, (i + 1) * 64 * 64 * 3);
    const gif = await sharp(many, { raw: { width: 64, height: 6400, channels: 3, pageHeight: 64 } })
      .gif()
      .toBuffer();
    const limits = { ...DEFAULT_IMAGE_LIMITS, maxPixels: 64 * 64 };
    expect((await prepare(gif, asDecoded(), limits)).shape).toEqual([1, 3, 64, 64]);
  });
});

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

describe('sizes', () => {
  test.each([
    [1, 1],
    [1, 5000],
    [5000, 1],
    [224, 224],
    [223, 225],
  ])('%d x %d becomes what the model takes', async (width, height) => {
    const raw = Buffer.alloc(width * height * 3, 128);
    const png = await sharp(raw, { raw: { width, height, channels: 3 } })
      .png()
      .toBuffer();
    for (const parameters of [{}, { image_resize: 'fast' }]) {
      const { shape, data, pixels } = await prepare(png, clip(parameters));
      expect(shape).toEqual([1, 3, 224, 224]);
      expect(data).toHaveLength(224 * 224 * 3);
      expect(new Set(data)).toEqual(new Set([128]));
      expect(pixels).toMatchObject({ layout: 'NCHW', rescale: 1 / 255 });
    }
  });

  test('a picture of just the right size is copied as it is', async () => {
    const noise = Buffer.from(Array.from({ length: 224 * 224 * 3 }, (_, i) => (i * 31) % 256));
    const png = await sharp(noise, { raw: { width: 224, height: 224, channels: 3 } })
      .png()
      .toBuffer();
    const config = { image_processor_type: 'ViTImageProcessor', size: 224, resample: 2, image_mean: 0, image_std: 1 };
    const model = modelWithFiles({ inputs: { x: ['FP32', 3, 224, 224] } });
    const { data } = await prepare(png, parseImagePipeline(JSON.stringify(config), model));
    expect(Buffer.compare(data, noise)).toBe(0);
  });

  test('a small picture lies on black where the crop is larger', async () => {
    const white = await sharp(Buffer.alloc(4 * 3, 255), { raw: { width: 2, height: 2, channels: 3 } })
      .png()
      .toBuffer();
    const config = {
      image_processor_type: 'CLIPImageProcessor',
      do_resize: false,
      do_center_crop: true,
      crop_size: 4,
      do_rescale: false,
      do_normalize: false,
    };
    const model = modelWithFiles({ inputs: { x: ['UINT8', 3, 4, 4] } });
    const { data, datatype, shape } = await prepare(white, parseImagePipeline(JSON.stringify(config), model));
    expect([datatype, shape]).toEqual(['UINT8', [1, 3, 4, 4]]);
    const plane = [0, 0, 0, 0, 0, 255, 255, 0, 0, 255, 255, 0, 0, 0, 0, 0];
    expect([...data]).toEqual([...plane, ...plane, ...plane]);
  });
});

test.each(['coffee.png', 'camera.png', 'chelsea.png', 'rocket.jpg'])(
  'the fast way stays near the exact one: %s',
  async (name) => {
    const photo = readFileSync(new URL(`../../../../../examples/photos/${name}`, import.meta.url));
    const exact = await prepare(photo, clip());
    const fast = await prepare(photo, clip({ image_resize: 'fast' }));
    expect(fast).toMatchObject({ name: exact.name, shape: exact.shape, pixels: exact.pixels });
    const differences = exact.data.map((value, i) => Math.abs(value - fast.data[i]!));
    expect(differences.reduce((most, difference) => Math.max(most, difference), 0)).toBeLessThanOrEqual(8);
    expect(differences.reduce((sum, difference) => sum + difference, 0) / differences.length).toBeLessThan(0.3);
  },
);

describe('colour profiles', () => {
  test('are ignored as Pillow does, or converted where the model says so', async () => {
    const red = Buffer.alloc(4 * 4 * 3);
    for (let i = 0; i < red.length; i += 3) red[i] = 200;
    const p3 = await sharp(red, { raw: { width: 4, height: 4, channels: 3 } })
      .withIccProfile('p3')
      .png()
      .toBuffer();
    const stored = await sharp(p3, { ignoreIcc: true }).raw().toBuffer();
    expect([...(await prepare(p3)).data]).toEqual([...stored]);
    const converted = await prepare(p3, asDecoded({ image_icc: 'convert' }));
    expect(Math.abs(converted.data[0]! - 200)).toBeLessThanOrEqual(3);
  });
});

/** An APP1 segment with one EXIF tag right behind the start of the JPEG. */
function withOrientation(jpeg: Buffer, orientation: number): Buffer {
  const exif = Buffer.from('4578696600004d4d002a000000080001011200030000000100000000000000000000', 'hex');
  exif.writeUInt16BE(orientation, 6 + 18);
  const segment = Buffer.concat([Buffer.from([0xff, 0xe1, 0, exif.length + 2]), exif]);
  // The writer's own EXIF, if any, would come second and not count.
  return Buffer.concat([jpeg.subarray(0, 2), segment, jpeg.subarray(2)]);
}

function grayPng(bits: 1 | 2 | 4 | 16, values: number[]): Buffer {
  const line = Buffer.alloc(1 + Math.ceil((values.length * bits) / 8));
  values.forEach((value, index) => {
    if (bits === 16) line.writeUInt16BE(value, 1 + index * 2);
    else line[1] = line[1]! | (value << (8 - bits * (index + 1)));
  });
  return Buffer.concat([pngHeader(values.length, 1, bits, 0), pngChunk('IDAT', deflateSync(line)), pngEnd()]);
}

function pngHeader(width: number, height: number, bits: number, colourType: number): Buffer {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([bits, colourType, 0, 0, 0], 8);
  return Buffer.concat([Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), pngChunk('IHDR', header)]);
}

function pngChunk(type: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(type), data]);
  const chunk = Buffer.alloc(4 + body.length + 4);
  chunk.writeUInt32BE(data.length, 0);
  body.copy(chunk, 4);
  chunk.writeUInt32BE(crc32(body), 4 + body.length);
  return chunk;
}

function pngEnd(): Buffer {
  return pngChunk('IEND', Buffer.alloc(0));
}
