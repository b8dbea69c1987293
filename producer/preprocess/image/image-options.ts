import { InferError } from '../../../shared/errors.ts';

/** What a model's config.pbtxt may say about pictures beyond preprocessor_config.json, in `parameters`. */
export interface ImageOptions {
  /**
   * `image_resize`: "pillow" (default, as Pillow 13), "pillow-12" (as Pillow up to 12; differs by 1 of 255 in tall
   * photos), "fast" (sharp's own resize: half the CPU for a JPEG of 2 megapixels and more, which is then decoded
   * smaller, and no gain for other photos; pixels differ by 0.1 to 0.5 of 255 on average and by up to 41).
   */
  readonly resize: 'pillow' | 'pillow-12' | 'fast';
  /** `image_icc`: "ignore" (default, as Pillow) or "convert" embedded profiles to sRGB. */
  readonly icc: 'ignore' | 'convert';
  /** `image_on_corrupt`: "reject" (default) or "tolerate": decode what is there, gray for the rest. */
  readonly onCorrupt: 'reject' | 'tolerate';
}

const VALUES = {
  image_resize: ['pillow', 'pillow-12', 'fast'],
  image_icc: ['ignore', 'convert'],
  image_on_corrupt: ['reject', 'tolerate'],
} as const;

type Parameters = Readonly<Record<string, { readonly stringValue: string }>>;

/** @throws InferError INVALID_ARGUMENT for a value that is not in the list. */
export function parseImageOptions(parameters: Parameters): ImageOptions {
  return {
    resize: pick(parameters, 'image_resize'),
    icc: pick(parameters, 'image_icc'),
    onCorrupt: pick(parameters, 'image_on_corrupt'),
  };
}

function pick<Key extends keyof typeof VALUES>(parameters: Parameters, key: Key): (typeof VALUES)[Key][number] {
  const allowed: readonly (typeof VALUES)[Key][number][] = VALUES[key];
  const value = parameters[key]?.stringValue;
  const found = allowed.find((candidate) => candidate === value);
  if (found !== undefined) return found;
  if (value === undefined) return VALUES[key][0];
  throw new InferError('INVALID_ARGUMENT', `parameter ${key} must be one of ${allowed.join(', ')}, got "${value}"`);
}
