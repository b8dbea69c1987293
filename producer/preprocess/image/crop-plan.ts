import type { ImagePipeline, Size } from './image-pipeline.ts';
import type { PixelWindow } from './pillow-resample.ts';

/** Where the pixels of the model's input come from. */
export interface CropPlan {
  /** Of the whole picture after the resize. */
  readonly resized: Size;
  /** The part of the resized picture that is used. */
  readonly window: PixelWindow;
  /** What the model gets, and where in it the window lies; the rest is black. */
  readonly result: Size;
  readonly left: number;
  readonly top: number;
}

/** The arithmetic of Hugging Face's processors: sides cut down to whole pixels, crops from the middle rounded down. */
export function planCrop(source: Size, { resize, crop }: Pick<ImagePipeline, 'resize' | 'crop'>): CropPlan {
  const resized = resize ? resizedSize(source, resize) : { width: source.width, height: source.height };
  const result = crop ?? resized;
  const across = overlap(resized.width, result.width);
  const down = overlap(resized.height, result.height);
  return {
    resized,
    window: { left: across.from, top: down.from, width: across.length, height: down.length },
    result: { width: result.width, height: result.height },
    left: across.at,
    top: down.at,
  };
}

function resizedSize({ width, height }: Size, rule: NonNullable<ImagePipeline['resize']>): Size {
  if (rule.kind === 'exact') return { width: rule.width, height: rule.height };
  if (width <= height) return { width: rule.edge, height: Math.trunc((rule.edge * height) / width) };
  return { width: Math.trunc((rule.edge * width) / height), height: rule.edge };
}

/** Of a side of `length` pixels, the middle `wanted`: from where, how many, and at which place of the result. */
function overlap(length: number, wanted: number): { from: number; length: number; at: number } {
  const offset = Math.floor((length - wanted) / 2);
  return { from: Math.max(0, offset), length: Math.min(length, wanted), at: Math.max(0, -offset) };
}
