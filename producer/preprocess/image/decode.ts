import sharp, { type Sharp } from 'sharp';
import { InferError } from '../../../shared/errors.ts';
import type { ImageOptions } from './image-options.ts';
import type { Raster } from './pillow-resample.ts';
import { sniffImage, type ImageFormat } from './sniff.ts';

export interface ImageLimits {
  /** Of the compressed file. */
  readonly maxBytes: number;
  /** Width x height, checked from the header before anything is decoded. */
  readonly maxPixels: number;
}

export const DEFAULT_IMAGE_LIMITS: ImageLimits = { maxBytes: 32 * 1024 * 1024, maxPixels: 50_000_000 };

/** libvips may take this long for one picture before it gives up. */
const DECODE_TIMEOUT_S = 30;

/** Settings of the whole process, for the thread that loads sharp: no cache, one core per picture, few formats. */
export function configureSharp(): void {
  sharp.cache(false);
  sharp.concurrency(1);
  sharp.block({ operation: ['VipsForeignLoad'] });
  sharp.unblock({ operation: LOADERS });
}

const LOADERS = ['Jpeg', 'Png', 'Webp', 'Nsgif', 'Tiff', 'Heif'].map((name) => `VipsForeignLoad${name}Buffer`);

/** A file that was recognised and can be opened by sharp. */
export interface OpenedImage {
  readonly format: ImageFormat;
  readonly bytes: Uint8Array;
  readonly pixels: Sharp;
}

/** Looks at the first bytes only. @throws InferError INVALID_ARGUMENT for what is no picture or too many bytes. */
export function openImage(bytes: Uint8Array, options: ImageOptions, limits: ImageLimits): OpenedImage {
  const format = sniffImage(bytes);
  assertImageBytes(bytes, limits);
  const pixels = sharp(bytes, {
    ignoreIcc: options.icc === 'ignore',
    failOn: options.onCorrupt === 'reject' ? 'error' : 'none',
    limitInputPixels: limits.maxPixels,
    pages: 1,
  })
    .autoOrient()
    .timeout({ seconds: DECODE_TIMEOUT_S });
  return { format, bytes, pixels };
}

/** @throws InferError INVALID_ARGUMENT for a file that is too large. */
export function assertImageBytes({ byteLength }: Uint8Array, { maxBytes }: ImageLimits): void {
  if (byteLength <= maxBytes) return;
  throw new InferError('INVALID_ARGUMENT', `the picture has ${byteLength} bytes, at most ${maxBytes} allowed`);
}

/**
 * The first frame, upright, as 8-bit RGB without alpha: what Pillow's `exif_transpose` and `convert('RGB')` give.
 * @throws InferError INVALID_ARGUMENT for a file that cannot be decoded or has too many pixels.
 */
export async function decodeRgb(image: OpenedImage, limits: ImageLimits): Promise<Raster> {
  return toRaster(image, limits, image.pixels);
}

/** Runs a pipeline of sharp to its raw RGB bytes. */
export async function toRaster(image: OpenedImage, limits: ImageLimits, pipeline: Sharp): Promise<Raster> {
  try {
    const { data, info } = await pipeline
      .toColourspace('srgb')
      .removeAlpha()
      .raw({ depth: 'uchar' })
      .toBuffer({ resolveWithObject: true });
    return { data: threeChannels(data, info.channels), width: info.width, height: info.height, channels: 3 };
  } catch (error) {
    throw await decodeError(error, image, limits);
  }
}

/** Upright width and height from the header. */
export async function readSize(image: OpenedImage, limits: ImageLimits): Promise<{ width: number; height: number }> {
  try {
    const { autoOrient } = await image.pixels.metadata();
    return { width: autoOrient.width, height: autoOrient.height };
  } catch (error) {
    throw await decodeError(error, image, limits);
  }
}

/** Files of one band, or of more than colour and alpha, come out of sharp with their own number of channels. */
function threeChannels(data: Uint8Array, channels: number): Uint8Array {
  if (channels === 3) return data;
  const gray = channels < 3;
  const count = Math.floor(data.length / channels);
  const rgb = new Uint8Array(count * 3);
  for (let i = 0; i < count; i++) {
    for (let c = 0; c < 3; c++) rgb[i * 3 + c] = data[i * channels + (gray ? 0 : c)] ?? 0;
  }
  return rgb;
}

async function decodeError(error: unknown, image: OpenedImage, limits: ImageLimits): Promise<InferError> {
  if (error instanceof InferError) return error;
  const text = error instanceof Error ? error.message : '';
  if (text.includes('exceeds pixel limit')) {
    const { width, height } = await declaredSize(image);
    const given = width > 0 ? `is ${width} x ${height} pixels` : 'has too many pixels';
    return new InferError('INVALID_ARGUMENT', `the picture ${given}, at most ${limits.maxPixels} pixels allowed`);
  }
  // libvips says what it found, one line a problem, without paths as it reads from memory.
  const reason = (text.split('\n').find((line) => line.trim() !== '') ?? 'unknown reason').slice(0, 200);
  return new InferError('INVALID_ARGUMENT', `the ${image.format} picture cannot be decoded: ${reason}`, {
    cause: error,
  });
}

/** For the error text alone: reads the header again without the limit, which decodes nothing. */
async function declaredSize({ bytes }: OpenedImage): Promise<{ width: number; height: number }> {
  try {
    return await sharp(bytes, { limitInputPixels: false, failOn: 'none' }).metadata();
  } catch {
    // The text then goes without the size.
    return { width: 0, height: 0 };
  }
}
