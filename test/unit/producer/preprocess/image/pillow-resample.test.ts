import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import sharp from 'sharp';
import { describe, expect, test } from 'vitest';
import type { PillowFilter } from '../../../../../producer/preprocess/image/pillow-filters.ts';
import { resamplePillow, type Raster } from '../../../../../producer/preprocess/image/pillow-resample.ts';
import { ResampleKernel } from '../../../../../producer/preprocess/image/resample-kernel.ts';
import { toGray } from '../../../../../producer/preprocess/image/gray.ts';

const kernel = new ResampleKernel();

type Mode = 'RGB' | 'L' | 'CMYK';

const root = new URL('../../../../../', import.meta.url);

/** What Pillow made, from test/fixtures/pillow/make.py. */
function madeBy(version: string) {
  const url = new URL(`test/fixtures/pillow/pillow-${version}.json`, root);
  return Object.entries(JSON.parse(readFileSync(url, 'utf8')) as Record<string, string>).map(([key, sha256]) => {
    const [name, mode, filter, size] = key.split(' ');
    const [width, height] = size!.split('x').map(Number);
    return { name: name!, mode: mode as Mode, filter: filter as PillowFilter, width: width!, height: height!, sha256 };
  });
}

const photos = new Map<string, Promise<Raster>>();

function photo(name: string): Promise<Raster> {
  const known = photos.get(name);
  if (known) return known;
  const loading = load(name);
  photos.set(name, loading);
  return loading;
}

async function load(name: string): Promise<Raster> {
  const file = readFileSync(new URL(`examples/photos/${name}`, root));
  const { data, info } = await sharp(file)
    .toColourspace('srgb')
    .removeAlpha()
    .raw()
    .toBuffer({ resolveWithObject: true });
  return { data, width: info.width, height: info.height, channels: 3 };
}

function inMode(rgb: Raster, mode: Mode): Raster {
  if (mode === 'RGB') return rgb;
  if (mode === 'L') return toGray(rgb);
  const data = new Uint8Array(rgb.width * rgb.height * 4);
  for (let i = 0; i < rgb.width * rgb.height; i++) {
    for (let c = 0; c < 3; c++) data[i * 4 + c] = 255 - rgb.data[i * 3 + c]!;
  }
  return { ...rgb, data, channels: 4 };
}

describe.each([
  ['13.0.0', 'pillow-13'],
  ['9.4.0', 'pillow-12'],
] as const)('resamplePillow gives the bytes of Pillow %s', (version, order) => {
  const cases = madeBy(version);

  test.each(cases)('$name $mode $filter to $width x $height', async ({ name, mode, filter, width, height, sha256 }) => {
    const source = inMode(await photo(name), mode);
    const { data } = resamplePillow(kernel, source, width, height, filter, undefined, order);
    expect(createHash('sha256').update(data).digest('hex')).toBe(sha256);
  });

  test('in 63 cases of the three usual filters, three photos and seven sizes, among others', () => {
    const usual = cases.filter((c) => c.mode === 'RGB' && ['bilinear', 'bicubic', 'lanczos'].includes(c.filter));
    expect(usual).toHaveLength(63);
  });
});

describe('a window', () => {
  const filters: PillowFilter[] = ['nearest', 'box', 'bilinear', 'hamming', 'bicubic', 'lanczos'];

  test.each(filters)('equals that part of the whole result (%s)', async (filter) => {
    const source = await photo('coffee.png');
    for (const [width, height, window] of [
      [384, 256, { left: 80, top: 16, width: 224, height: 224 }],
      [600, 256, { left: 1, top: 255, width: 599, height: 1 }],
      [300, 400, { left: 299, top: 0, width: 1, height: 400 }],
      [600, 400, { left: 10, top: 20, width: 30, height: 40 }],
      [1000, 900, { left: 500, top: 890, width: 77, height: 10 }],
      [590, 100, { left: 100, top: 50, width: 200, height: 50 }],
    ] as const) {
      const whole = resamplePillow(kernel, source, width, height, filter);
      const part = resamplePillow(kernel, source, width, height, filter, window);
      expect(part).toMatchObject({ width: window.width, height: window.height, channels: 3 });
      expect(Buffer.compare(part.data, resamplePillow(kernel, whole, width, height, 'box', window).data)).toBe(0);
    }
  });
});
