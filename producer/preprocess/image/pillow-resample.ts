import { createTaps, type PillowFilter } from './pillow-filters.ts';
import type { ResampleKernel } from './resample-kernel.ts';

/** An 8-bit picture, rows x columns x channels without padding. */
export interface Raster {
  readonly data: Uint8Array;
  readonly width: number;
  readonly height: number;
  readonly channels: 1 | 3 | 4;
}

/** A part of a picture, in whole pixels, inside it. */
export interface PixelWindow {
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
}

/**
 * Which pass goes first where both are needed; rounding to 8 bits between them makes it part of the result. Pillow went
 * across first until version 12. From 13 on it goes down first where the height shrinks by more than twice as many
 * pixels as the width, as it does for tall photos. The two differ by 1 of 255 here and there.
 */
export type PassOrder = 'pillow-13' | 'pillow-12';

/**
 * Pillow's `Image.resize` for 8-bit pictures, bit for bit: weights of 22 fractional bits, two passes, each rounded to
 * 8 bits. Only `window` of the result is computed and returned, in a buffer of its own; it equals that part of the
 * whole result. Four channels are treated alike, as Pillow does for CMYK (its RGBA would be premultiplied first).
 */
export function resamplePillow(
  kernel: ResampleKernel,
  source: Raster,
  width: number,
  height: number,
  filter: PillowFilter,
  window: PixelWindow = { left: 0, top: 0, width, height },
  order: PassOrder = 'pillow-13',
): Raster {
  if (width === source.width && height === source.height) return crop(source, window);
  if (filter === 'nearest') return nearest(source, width, height, window);
  const horizontal = createTaps(source.width, width, filter, window.left, window.width);
  const vertical = createTaps(source.height, height, filter, window.top, window.height);

  if (width === source.width) {
    return kernel.down(crop(source, { ...window, top: vertical.from, height: vertical.length }), vertical);
  }
  if (height === source.height) {
    return kernel.across(source, { from: window.top, length: window.height }, horizontal, 0);
  }
  const shrink = source.height - height;
  if (order === 'pillow-13' && shrink > 0 && shrink > (source.width - width) * 2) {
    const needed = { left: horizontal.from, top: vertical.from, width: horizontal.length, height: vertical.length };
    const rows = kernel.down(crop(source, needed), vertical);
    return kernel.across(rows, { from: 0, length: rows.height }, horizontal, horizontal.from);
  }
  return kernel.down(kernel.across(source, vertical, horizontal, 0), vertical);
}

function crop(source: Raster, window: PixelWindow): Raster {
  const { data, width, channels } = source;
  const line = window.width * channels;
  const out = new Uint8Array(window.height * line);
  for (let y = 0; y < window.height; y++) {
    const start = ((window.top + y) * width + window.left) * channels;
    out.set(data.subarray(start, start + line), y * line);
  }
  return { data: out, width: window.width, height: window.height, channels };
}

function nearest(source: Raster, width: number, height: number, window: PixelWindow): Raster {
  const { data, channels } = source;
  const columns = nearestIndices(source.width, width, window.left, window.width);
  const rows = nearestIndices(source.height, height, window.top, window.height);
  const out = new Uint8Array(window.width * window.height * channels);
  let o = 0;
  for (const row of rows) {
    for (const column of columns) {
      const p = (row * source.width + column) * channels;
      for (let c = 0; c < channels; c++) out[o++] = data[p + c] ?? 0;
    }
  }
  return { data: out, width: window.width, height: window.height, channels };
}

/** Pillow adds the step up instead of multiplying it, and so do we: the rounding errors are part of the result. */
function nearestIndices(inSize: number, outSize: number, from: number, length: number): Int32Array {
  const step = inSize / outSize;
  const indices = new Int32Array(length);
  let position = step * 0.5;
  for (let i = 0; i < from + length; i++) {
    if (i >= from) indices[i - from] = Math.min(inSize - 1, Math.trunc(position));
    position += step;
  }
  return indices;
}
