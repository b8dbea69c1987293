import { InferError } from '../../../shared/errors.ts';
import type { ReadyModel } from '../../../shared/model/ready-model.ts';
import { parseJsonObject, type JsonObject } from '../json-file.ts';
import { imageInputOf, type ImageInput } from './image-input.ts';
import { parseImageOptions, type ImageOptions } from './image-options.ts';
import { PILLOW_FILTERS, type PillowFilter } from './pillow-filters.ts';

/** How big the picture becomes before the crop. */
export type ResizeRule =
  | { readonly kind: 'exact'; readonly width: number; readonly height: number }
  /** The shorter side becomes `edge`; the longer one keeps the ratio and is cut down to whole pixels. */
  | { readonly kind: 'shortest'; readonly edge: number };

export interface Size {
  readonly width: number;
  readonly height: number;
}

/** Everything that turns a photo into a model's input: plain data, so that it can travel to another thread. */
export interface ImagePipeline {
  readonly input: ImageInput;
  readonly resize: ResizeRule | undefined;
  readonly filter: PillowFilter;
  /** From the middle; what lies outside the picture is black. */
  readonly crop: Size | undefined;
  /** value = (pixel * rescale - mean) / std, each step rounded to float32. */
  readonly rescale: number;
  /** One number per channel, already float32. */
  readonly mean: readonly number[];
  readonly std: readonly number[];
  readonly options: ImageOptions;
}

const FILE = 'preprocessor_config.json';

/**
 * Reads preprocessor_config.json as Hugging Face's own (slow, Pillow) image processors do. The file must say all that
 * decides about pixels; nothing is guessed and nothing that would change pixels is ignored.
 * @throws InferError INVALID_ARGUMENT that names the key.
 */
export function parseImagePipeline(text: string, model: ReadyModel): ImagePipeline {
  const config = parseJsonObject(text, FILE);
  const processor = processorOf(config);
  refuseUnknownKeys(config);
  const input = imageInputOf(model);
  const { resize, crop } = processor.family === 'convnext' ? convnextSizes(config) : plainSizes(config, processor);
  const rescale = flag(config, 'do_rescale', true) ? number(config, 'rescale_factor', 1 / 255) : 1;
  const normalize = flag(config, 'do_normalize', true);
  const pipeline: ImagePipeline = {
    input,
    resize,
    filter: resize ? filterOf(config) : 'bicubic',
    crop,
    rescale,
    mean: normalize ? perChannel(config, 'image_mean', input.channels) : new Array<number>(input.channels).fill(0),
    std: normalize ? perChannel(config, 'image_std', input.channels) : new Array<number>(input.channels).fill(1),
    options: parseImageOptions(model.config.parameters),
  };
  if (input.datatype === 'UINT8' && (rescale !== 1 || normalize)) {
    throw wrong(`model "${model.name}" takes UINT8 pixels, so do_rescale and do_normalize must be false`);
  }
  refuseWrongSize(pipeline, model);
  return pipeline;
}

interface Processor {
  readonly name: string;
  readonly family: 'edge' | 'square' | 'convnext';
  /** Whether this processor knows `do_center_crop`. */
  readonly crops: boolean;
}

/** What a plain number as `size` means, and whether there is a crop, by the processor's name. */
const PROCESSORS: Readonly<Record<string, Omit<Processor, 'name'>>> = {
  CLIP: { family: 'edge', crops: true },
  ChineseCLIP: { family: 'edge', crops: true },
  Bit: { family: 'edge', crops: true },
  MobileNetV1: { family: 'edge', crops: true },
  MobileNetV2: { family: 'edge', crops: true },
  ViT: { family: 'square', crops: false },
  Siglip: { family: 'square', crops: false },
  Blip: { family: 'square', crops: false },
  DeiT: { family: 'square', crops: true },
  Beit: { family: 'square', crops: true },
  ConvNext: { family: 'convnext', crops: false },
};

function processorOf(config: JsonObject): Processor {
  const name = config['image_processor_type'] ?? config['feature_extractor_type'];
  if (typeof name !== 'string') throw wrong('has no image_processor_type; expected for example "ViTImageProcessor"');
  const base = name.replace(/(ImageProcessor(Fast|Pil)?|FeatureExtractor)$/, '');
  const known = Object.hasOwn(PROCESSORS, base) && base !== name ? PROCESSORS[base] : undefined;
  if (known) return { name, ...known };
  const names = Object.keys(PROCESSORS).map((key) => `${key}ImageProcessor`);
  throw wrong(`image_processor_type "${name}" is not supported; supported are ${names.join(', ')}`);
}

const KNOWN_KEYS = new Set([
  ...['image_processor_type', 'feature_extractor_type', 'processor_class', '_processor_class', 'auto_map'],
  ...['do_resize', 'size', 'resample', 'crop_pct', 'default_to_square', 'do_center_crop', 'crop_size'],
  ...['do_rescale', 'rescale_factor', 'do_normalize', 'image_mean', 'image_std'],
  // The picture always becomes RGB, or gray for a model of one channel.
  'do_convert_rgb',
  // How and where tensors are made, and labels of segmentation maps: nothing that reaches the pixels.
  ...['data_format', 'input_data_format', 'return_tensors', 'device', 'disable_grouping', 'do_reduce_labels'],
  ...['reduce_labels', '_valid_processor_keys', 'image_seq_length'],
]);

function refuseUnknownKeys(config: JsonObject): void {
  for (const [key, value] of Object.entries(config)) {
    if (KNOWN_KEYS.has(key) || value === false || value === null) continue;
    throw wrong(`key "${key}" is not supported`);
  }
}

function plainSizes(config: JsonObject, processor: Processor): Pick<ImagePipeline, 'resize' | 'crop'> {
  const cropWanted = flag(config, 'do_center_crop', processor.crops && config['crop_size'] !== undefined);
  if (cropWanted && !processor.crops) {
    throw wrong(`do_center_crop is true, but ${processor.name} does not crop; CLIPImageProcessor does`);
  }
  const square = flag(config, 'default_to_square', processor.family === 'square');
  return {
    resize: flag(config, 'do_resize', true) ? resizeRule(config['size'], square) : undefined,
    crop: cropWanted ? exactSize(config['crop_size'], 'crop_size') : undefined,
  };
}

/** ConvNeXt and ResNet: below 384 the picture is resized to size / crop_pct and cropped, else squeezed into a square. */
function convnextSizes(config: JsonObject): Pick<ImagePipeline, 'resize' | 'crop'> {
  if (flag(config, 'do_center_crop', false))
    throw wrong('do_center_crop is true, but ConvNextImageProcessor has crop_pct');
  if (!flag(config, 'do_resize', true)) return { resize: undefined, crop: undefined };
  const rule = resizeRule(config['size'], false);
  if (rule.kind === 'exact') throw wrong('size must have shortest_edge for ConvNextImageProcessor');
  const square = { width: rule.edge, height: rule.edge };
  if (rule.edge >= 384) return { resize: { kind: 'exact', ...square }, crop: undefined };
  const edge = Math.trunc(rule.edge / number(config, 'crop_pct'));
  return { resize: { kind: 'shortest', edge }, crop: square };
}

function resizeRule(size: unknown, square: boolean): ResizeRule {
  if (typeof size === 'number') {
    const edge = pixels(size, 'size');
    return square ? { kind: 'exact', width: edge, height: edge } : { kind: 'shortest', edge };
  }
  if (typeof size === 'object' && size !== null && 'shortest_edge' in size && Object.keys(size).length === 1) {
    return { kind: 'shortest', edge: pixels(size.shortest_edge, 'size.shortest_edge') };
  }
  return { kind: 'exact', ...exactSize(size, 'size') };
}

function exactSize(size: unknown, key: string): Size {
  if (typeof size === 'number') {
    const edge = pixels(size, key);
    return { width: edge, height: edge };
  }
  if (typeof size === 'object' && size !== null && 'height' in size && 'width' in size) {
    if (Object.keys(size).length === 2) {
      return { width: pixels(size.width, `${key}.width`), height: pixels(size.height, `${key}.height`) };
    }
  }
  const allowed = key === 'size' ? 'a number, {shortest_edge} or {height, width}' : 'a number or {height, width}';
  throw wrong(`${key} must be ${allowed}, got ${shown(size)}`);
}

function pixels(value: unknown, key: string): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= 16384) return value;
  throw wrong(`${key} must be a whole number from 1 to 16384, got ${shown(value)}`);
}

function filterOf(config: JsonObject): PillowFilter {
  const resample = config['resample'];
  const filter = typeof resample === 'number' ? PILLOW_FILTERS[resample] : undefined;
  if (filter) return filter;
  const names = PILLOW_FILTERS.map((name, number) => `${number} (${name})`).join(', ');
  throw wrong(`resample must be one of ${names}, got ${shown(resample)}`);
}

function perChannel(config: JsonObject, key: string, channels: number): number[] {
  const value = config[key];
  const list: unknown[] = Array.isArray(value) ? value : new Array<unknown>(channels).fill(value);
  const numbers = list.filter((item): item is number => typeof item === 'number' && Number.isFinite(item));
  if (numbers.length !== channels || list.length !== channels || (key === 'image_std' && numbers.includes(0))) {
    throw wrong(`${key} must be ${channels} numbers, got ${shown(value)}`);
  }
  return numbers.map(Math.fround);
}

function flag(config: JsonObject, key: string, fallback: boolean): boolean {
  const value = config[key] ?? fallback;
  if (typeof value === 'boolean') return value;
  throw wrong(`${key} must be true or false, got ${shown(value)}`);
}

function number(config: JsonObject, key: string, fallback?: number): number {
  const value = config[key] ?? fallback;
  if (typeof value === 'number' && Number.isFinite(value) && value > 0) return value;
  throw wrong(`${key} must be a number above 0, got ${shown(value)}`);
}

function refuseWrongSize({ input, resize, crop }: ImagePipeline, model: ReadyModel): void {
  const size = crop ?? (resize?.kind === 'exact' ? resize : undefined);
  for (const side of ['height', 'width'] as const) {
    const wanted = input[side];
    if (wanted === -1 || wanted === size?.[side]) continue;
    const given = size ? `${size.height} x ${size.width}` : 'pictures of varying size';
    throw wrong(`gives ${given}, model "${model.name}" takes ${input.height} x ${input.width} (height x width)`);
  }
}

function shown(value: unknown): string {
  return value === undefined ? 'nothing' : JSON.stringify(value).slice(0, 200);
}

function wrong(what: string): InferError {
  return new InferError('INVALID_ARGUMENT', `${FILE}: ${what}`);
}
