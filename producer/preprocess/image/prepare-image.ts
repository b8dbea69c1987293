import { InferError } from '../../../shared/errors.ts';
import type { Tensor } from '../../../shared/tensor/tensor.ts';
import { planCrop, type CropPlan } from './crop-plan.ts';
import { decodeRgb, openImage, readSize, toRaster, type ImageLimits, type OpenedImage } from './decode.ts';
import { toGray } from './gray.ts';
import type { ImagePipeline, Size } from './image-pipeline.ts';
import { resamplePillow, type Raster } from './pillow-resample.ts';
import type { PillowFilter } from './pillow-filters.ts';
import type { ResampleKernel } from './resample-kernel.ts';

/**
 * A file of a picture as the model's input, one row. FP32 inputs travel as UINT8 pixels with their normalisation.
 * @throws InferError INVALID_ARGUMENT for a file that is no picture, broken or beyond the limits.
 */
export async function prepareImage(
  bytes: Uint8Array,
  pipeline: ImagePipeline,
  limits: ImageLimits,
  kernel: ResampleKernel,
): Promise<Tensor> {
  const image = openImage(bytes, pipeline.options, limits);
  const sharpKernel = SHARP_KERNELS[pipeline.filter];
  if (pipeline.options.resize === 'fast' && pipeline.resize && sharpKernel) {
    const size = await readSize(image, limits);
    const plan = plannedWithin(limits, size, pipeline);
    // sharp would make all of the resized picture, of which the exact way makes only the window.
    if (plan.resized.width * plan.resized.height <= limits.maxPixels) {
      return toTensor(await resizeFast(image, plan, sharpKernel, limits), plan, pipeline);
    }
  }
  const rgb = await decodeRgb(image, limits);
  const plan = plannedWithin(limits, rgb, pipeline);
  const source = pipeline.input.channels === 1 ? toGray(rgb) : rgb;
  const order = pipeline.options.resize === 'pillow-12' ? 'pillow-12' : 'pillow-13';
  const { width, height } = plan.resized;
  return toTensor(resamplePillow(kernel, source, width, height, pipeline.filter, plan.window, order), plan, pipeline);
}

/** The kernels of sharp that come near Pillow's. */
const SHARP_KERNELS: Readonly<Partial<Record<PillowFilter, 'nearest' | 'linear' | 'cubic' | 'lanczos3'>>> = {
  nearest: 'nearest',
  bilinear: 'linear',
  bicubic: 'cubic',
  lanczos: 'lanczos3',
};

type SharpKernel = NonNullable<(typeof SHARP_KERNELS)[PillowFilter]>;

/** A very long strip with a side of one pixel could become a picture of billions of pixels. */
function plannedWithin(limits: ImageLimits, source: Size, pipeline: ImagePipeline): CropPlan {
  const plan = planCrop(source, pipeline);
  const { width, height } = plan.result;
  if (
    width >= 1 &&
    height >= 1 &&
    plan.window.width >= 1 &&
    plan.window.height >= 1 &&
    width * height <= limits.maxPixels
  ) {
    return plan;
  }
  throw new InferError(
    'INVALID_ARGUMENT',
    `a picture of ${source.width} x ${source.height} pixels would become ${width} x ${height} for this model, ` +
      `at most ${limits.maxPixels} pixels allowed`,
  );
}

async function resizeFast(
  image: OpenedImage,
  plan: CropPlan,
  kernel: SharpKernel,
  limits: ImageLimits,
): Promise<Raster> {
  const { width, height } = plan.resized;
  const pipeline = image.pixels.clone().resize(width, height, { fit: 'fill', kernel, fastShrinkOnLoad: false });
  const picture = await toRaster(image, limits, pipeline.extract({ ...plan.window }));
  // sharp's memory is its own and cannot move to another thread.
  return { ...picture, data: new Uint8Array(picture.data) };
}

function toTensor(picture: Raster, plan: CropPlan, { input, rescale, mean, std }: ImagePipeline): Tensor {
  const { width, height } = plan.result;
  const { name, channels, layout } = input;
  const colours = channels === 1 && picture.channels === 3 ? toGray(picture) : picture;
  const pixels = onBlack(colours, plan);
  const dims = layout === 'NCHW' ? [channels, height, width] : [height, width, channels];
  const shape = input.batched ? [1, ...dims] : dims;
  if (input.datatype === 'FP32') {
    return { name, datatype: 'FP32', shape, data: pixels, pixels: { layout, rescale, mean, std } };
  }
  return { name, datatype: 'UINT8', shape, data: layout === 'NHWC' ? pixels : toPlanes(pixels, channels) };
}

function onBlack(picture: Raster, { result, left, top }: CropPlan): Uint8Array {
  if (picture.width === result.width && picture.height === result.height) return picture.data;
  const line = picture.width * picture.channels;
  const out = new Uint8Array(result.width * result.height * picture.channels);
  for (let y = 0; y < picture.height; y++) {
    const start = ((top + y) * result.width + left) * picture.channels;
    out.set(picture.data.subarray(y * line, (y + 1) * line), start);
  }
  return out;
}

function toPlanes(pixels: Uint8Array, channels: number): Uint8Array {
  const plane = pixels.length / channels;
  const out = new Uint8Array(pixels.length);
  for (let c = 0; c < channels; c++) {
    for (let i = 0; i < plane; i++) out[c * plane + i] = pixels[i * channels + c] ?? 0;
  }
  return out;
}
