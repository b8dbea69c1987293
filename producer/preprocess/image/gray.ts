import type { Raster } from './pillow-resample.ts';

/** Pillow's `convert('L')` of an RGB picture: ITU-R 601-2 weights in 16 fractional bits, rounded. */
export function toGray(rgb: Raster): Raster {
  const { data, width, height } = rgb;
  const out = new Uint8Array(width * height);
  for (let i = 0, p = 0; i < out.length; i++, p += 3) {
    out[i] = ((data[p] ?? 0) * 19595 + (data[p + 1] ?? 0) * 38470 + (data[p + 2] ?? 0) * 7471 + 0x8000) >> 16;
  }
  return { data: out, width, height, channels: 1 };
}
