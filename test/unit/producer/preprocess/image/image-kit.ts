import { crc32 } from 'node:zlib';
import sharp from 'sharp';
import { DEFAULT_IMAGE_LIMITS } from '../../../../../producer/preprocess/image/decode.ts';
import { parseImagePipeline, type ImagePipeline } from '../../../../../producer/preprocess/image/image-pipeline.ts';
import { prepareImage } from '../../../../../producer/preprocess/image/prepare-image.ts';
import { ResampleKernel } from '../../../../../producer/preprocess/image/resample-kernel.ts';
import { modelWithFiles } from '../../../../support/text-files-model.ts';

export const kernel = new ResampleKernel();

/** Pixels as they are, in any size: what the decoder gave. */
export function asDecoded(parameters: Record<string, string> = {}): ImagePipeline {
  const config = {
    image_processor_type: 'ViTImageProcessor',
    do_resize: false,
    do_rescale: false,
    do_normalize: false,
  };
  const model = modelWithFiles({ inputs: { x: ['FP32', 3, -1, -1] }, parameters });
  return parseImagePipeline(JSON.stringify(config), model);
}

export const prepare = (bytes: Uint8Array, pipeline = asDecoded(), limits = DEFAULT_IMAGE_LIMITS) =>
  prepareImage(bytes, pipeline, limits, kernel);

export const RED = [254, 0, 0];
export const GREEN = [0, 128, 1];
export const BLUE = [0, 0, 255];
export const WHITE = [255, 255, 255];

/** 40 x 20: red and green above, blue and white below. */
export function quadrants(): Buffer {
  const raw = Buffer.alloc(40 * 20 * 3);
  for (let y = 0; y < 20; y++) {
    for (let x = 0; x < 40; x++) {
      const colour = y < 10 ? (x < 20 ? RED : GREEN) : x < 20 ? BLUE : WHITE;
      raw.set(colour, (y * 40 + x) * 3);
    }
  }
  return raw;
}

export const quadrantPicture = () => sharp(quadrants(), { raw: { width: 40, height: 20, channels: 3 } });

export function pngHeader(width: number, height: number, bits: number, colourType: number): Buffer {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([bits, colourType, 0, 0, 0], 8);
  return Buffer.concat([Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), pngChunk('IHDR', header)]);
}

export function pngChunk(type: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(type), data]);
  const chunk = Buffer.alloc(4 + body.length + 4);
  chunk.writeUInt32BE(data.length, 0);
  body.copy(chunk, 4);
  chunk.writeUInt32BE(crc32(body), 4 + body.length);
  return chunk;
}

export function pngEnd(): Buffer {
  return pngChunk('IEND', Buffer.alloc(0));
}
