import { readFileSync } from 'node:fs';
import { deflateSync } from 'node:zlib';
import sharp from 'sharp';
import { beforeAll, describe, expect, test } from 'vitest';
import { configureSharp, DEFAULT_IMAGE_LIMITS } from '../../../../../producer/preprocess/image/decode.ts';
import { parseImagePipeline, type ImagePipeline } from '../../../../../producer/preprocess/image/image-pipeline.ts';
import { modelWithFiles } from '../../../../support/text-files-model.ts';
import {
  BLUE,
  GREEN,
  RED,
  WHITE,
  asDecoded,
  pngChunk,
  pngEnd,
  pngHeader,
  prepare,
  quadrantPicture,
} from './image-kit.ts';

beforeAll(configureSharp);

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
