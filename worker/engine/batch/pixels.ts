import type { PixelEncoding } from '../../../shared/tensor/tensor.ts';

/** What `PixelEncoding` means: the float of each pixel value, one table of 256 per channel. */
export interface PixelTables {
  readonly encoding: PixelEncoding;
  readonly channels: readonly Float32Array[];
}

export function createPixelTables(encoding: PixelEncoding): PixelTables {
  const { rescale, mean, std } = encoding;
  const channels = mean.map((channelMean, channel) =>
    Float32Array.from({ length: 256 }, (_, pixel) => {
      const centred = Math.fround(Math.fround(pixel * rescale) - channelMean);
      return Math.fround(centred / (std[channel] ?? 1));
    }),
  );
  return { encoding, channels };
}

/** Whether tables made for `a` serve `b` too. Requests of one model nearly always share one encoding. */
export function sameEncoding(a: PixelEncoding, b: PixelEncoding): boolean {
  if (a === b) return true;
  return (
    a.rescale === b.rescale &&
    a.mean.length === b.mean.length &&
    a.mean.every((value, channel) => value === b.mean[channel] && a.std[channel] === b.std[channel])
  );
}

/**
 * Writes the pixels of `rows` pictures, height x width x channels each, as floats into `target` from `offset` on, in
 * the layout of the encoding. `source` holds a whole number of pixels per picture.
 */
export function expandPixels(
  source: Uint8Array,
  rows: number,
  layout: PixelEncoding['layout'],
  tables: PixelTables,
  target: Float32Array,
  offset: number,
): void {
  const channelCount = tables.channels.length;
  const perRow = source.length / Math.max(1, rows);
  const plane = perRow / channelCount;
  for (let channel = 0; channel < channelCount; channel += 1) {
    const table = tables.channels[channel];
    if (!table) continue;
    for (let row = 0; row < rows; row += 1) {
      const start = row * perRow + channel;
      const end = (row + 1) * perRow;
      let to = offset + row * perRow + (layout === 'NCHW' ? channel * plane : channel);
      const step = layout === 'NCHW' ? 1 : channelCount;
      for (let from = start; from < end; from += channelCount, to += step) target[to] = table[source[from] ?? 0] ?? 0;
    }
  }
}
