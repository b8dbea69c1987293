import { createTaps, WEIGHT_BITS, type PillowFilter, type Taps } from './pillow-filters.ts';

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
    return down(crop(source, { ...window, top: vertical.from, height: vertical.length }), vertical);
  }
  if (height === source.height) {
    return across(source, { from: window.top, length: window.height }, horizontal, 0);
  }
  const shrink = source.height - height;
  if (order === 'pillow-13' && shrink > 0 && shrink > (source.width - width) * 2) {
    const needed = { left: horizontal.from, top: vertical.from, width: horizontal.length, height: vertical.length };
    const rows = down(crop(source, needed), vertical);
    return across(rows, { from: 0, length: rows.height }, horizontal, horizontal.from);
  }
  return down(across(source, vertical, horizontal, 0), vertical);
}

const HALF = 1 << (WEIGHT_BITS - 1);

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

/** The rows `rows` of `source`, whose first column is column `origin` of what the taps count from. */
function across(source: Raster, rows: { from: number; length: number }, taps: Taps, origin: number): Raster {
  const { width, channels } = source;
  const out = new Uint8ClampedArray(taps.first.length * rows.length * channels);
  const pass = channels === 3 ? across3 : acrossAny;
  const line = taps.first.length * channels;
  for (let y = 0; y < rows.length; y++)
    pass(source, ((rows.from + y) * width - origin) * channels, taps, out, y * line);
  return { data: new Uint8Array(out.buffer), width: taps.first.length, height: rows.length, channels };
}

// The indices in the passes are in range by construction: taps never reach outside their axis. `?? 0` is there for the
// type checker and costs nothing. Math.imul and `| 0` keep the sums in int32 registers, and storing into a clamped
// array is Pillow's clip8.
function across3(source: Raster, rowStart: number, taps: Taps, out: Uint8ClampedArray, outStart: number): void {
  const { data } = source;
  const { first, count, weights, stride } = taps;
  let o = outStart;
  for (let x = 0; x < first.length; x++) {
    let p = rowStart + (first[x] ?? 0) * 3;
    let r = HALF;
    let g = HALF;
    let b = HALF;
    let w = x * stride;
    const end = w + (count[x] ?? 0);
    for (; w + 4 <= end; w += 4) {
      const w0 = weights[w] ?? 0;
      const w1 = weights[w + 1] ?? 0;
      const w2 = weights[w + 2] ?? 0;
      const w3 = weights[w + 3] ?? 0;
      r += Math.imul(data[p] ?? 0, w0) + Math.imul(data[p + 3] ?? 0, w1);
      r = (r + Math.imul(data[p + 6] ?? 0, w2) + Math.imul(data[p + 9] ?? 0, w3)) | 0;
      g += Math.imul(data[p + 1] ?? 0, w0) + Math.imul(data[p + 4] ?? 0, w1);
      g = (g + Math.imul(data[p + 7] ?? 0, w2) + Math.imul(data[p + 10] ?? 0, w3)) | 0;
      b += Math.imul(data[p + 2] ?? 0, w0) + Math.imul(data[p + 5] ?? 0, w1);
      b = (b + Math.imul(data[p + 8] ?? 0, w2) + Math.imul(data[p + 11] ?? 0, w3)) | 0;
      p += 12;
    }
    for (; w < end; w++) {
      const weight = weights[w] ?? 0;
      r = (r + Math.imul(data[p] ?? 0, weight)) | 0;
      g = (g + Math.imul(data[p + 1] ?? 0, weight)) | 0;
      b = (b + Math.imul(data[p + 2] ?? 0, weight)) | 0;
      p += 3;
    }
    out[o] = r >> WEIGHT_BITS;
    out[o + 1] = g >> WEIGHT_BITS;
    out[o + 2] = b >> WEIGHT_BITS;
    o += 3;
  }
}

function acrossAny(source: Raster, rowStart: number, taps: Taps, out: Uint8ClampedArray, outStart: number): void {
  const { data, channels } = source;
  const { first, count, weights, stride } = taps;
  let o = outStart;
  for (let x = 0; x < first.length; x++) {
    const start = rowStart + (first[x] ?? 0) * channels;
    const n = count[x] ?? 0;
    for (let c = 0; c < channels; c++) {
      let sum = HALF;
      for (let k = 0; k < n; k++) {
        sum = (sum + Math.imul(data[start + k * channels + c] ?? 0, weights[x * stride + k] ?? 0)) | 0;
      }
      out[o++] = sum >> WEIGHT_BITS;
    }
  }
}

/** `source` begins with the first row that the taps use. Four rows at a time, to touch the sums less often. */
function down(source: Raster, taps: Taps): Raster {
  const { data, width, channels } = source;
  const { first, count, weights, stride } = taps;
  const line = width * channels;
  const height = first.length;
  const out = new Uint8ClampedArray(height * line);
  const sums = new Int32Array(line);
  for (let y = 0; y < height; y++) {
    let p = ((first[y] ?? 0) - taps.from) * line;
    let w = y * stride;
    const end = w + (count[y] ?? 0);
    sums.fill(HALF);
    for (; w + 4 <= end; w += 4) {
      addFourRows(sums, data, p, weights, w);
      p += 4 * line;
    }
    for (; w < end; w++) {
      addRow(sums, data, p, weights[w] ?? 0);
      p += line;
    }
    const o = y * line;
    for (let x = 0; x < line; x++) out[o + x] = (sums[x] ?? 0) >> WEIGHT_BITS;
  }
  return { data: new Uint8Array(out.buffer), width, height, channels };
}

function addFourRows(sums: Int32Array, rows: Uint8Array, start: number, weights: Int32Array, w: number): void {
  const line = sums.length;
  const w0 = weights[w] ?? 0;
  const w1 = weights[w + 1] ?? 0;
  const w2 = weights[w + 2] ?? 0;
  const w3 = weights[w + 3] ?? 0;
  const p1 = start + line;
  const p2 = p1 + line;
  const p3 = p2 + line;
  for (let x = 0; x < line; x++) {
    sums[x] =
      ((sums[x] ?? 0) +
        Math.imul(rows[start + x] ?? 0, w0) +
        Math.imul(rows[p1 + x] ?? 0, w1) +
        Math.imul(rows[p2 + x] ?? 0, w2) +
        Math.imul(rows[p3 + x] ?? 0, w3)) |
      0;
  }
}

function addRow(sums: Int32Array, rows: Uint8Array, start: number, weight: number): void {
  for (let x = 0; x < sums.length; x++) sums[x] = ((sums[x] ?? 0) + Math.imul(rows[start + x] ?? 0, weight)) | 0;
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
