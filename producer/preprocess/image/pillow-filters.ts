/** Pillow's resampling filters; the numbers are `PIL.Image.Resampling`, as `resample` in preprocessor_config.json. */
export const PILLOW_FILTERS = ['nearest', 'lanczos', 'bilinear', 'bicubic', 'box', 'hamming'] as const;
export type PillowFilter = (typeof PILLOW_FILTERS)[number];

/** What each of a run of neighbouring output positions is made of along one axis. */
export interface Taps {
  /** Index of the first input that counts, per output. */
  readonly first: Int32Array;
  /** Number of inputs that count, per output. */
  readonly count: Int32Array;
  /** `stride` fixed-point weights per output, the unused ones at the end 0. */
  readonly weights: Int32Array;
  readonly stride: number;
  /** The inputs that count for any of the outputs: `length` of them from `from` on. */
  readonly from: number;
  readonly length: number;
}

/** Weights are integers of 22 fractional bits: 8 bits of pixel and 2 of headroom fill an int32. */
export const WEIGHT_BITS = 22;

/**
 * Weights for the outputs `from` .. `from + length - 1` of a resize from `inSize` to `outSize`. Every operation is in
 * Pillow's order and precision, so that the integers come out the same.
 */
export function createTaps(
  inSize: number,
  outSize: number,
  filter: Exclude<PillowFilter, 'nearest'>,
  from: number,
  length: number,
): Taps {
  const { support: radius, weigh } = KERNELS[filter];
  const scale = inSize / outSize;
  const filterScale = Math.max(scale, 1);
  const support = radius * filterScale;
  const inverse = 1 / filterScale;
  const stride = Math.ceil(support) * 2 + 1;
  const first = new Int32Array(length);
  const count = new Int32Array(length);
  const weights = new Int32Array(length * stride);
  const raw = new Float64Array(stride);
  for (let i = 0; i < length; i++) {
    const centre = (from + i + 0.5) * scale;
    const low = Math.max(0, Math.trunc(centre - support + 0.5));
    const high = Math.min(inSize, Math.trunc(centre + support + 0.5));
    const n = high - low;
    let sum = 0;
    for (let k = 0; k < n; k++) {
      const weight = weigh((k + low - centre + 0.5) * inverse);
      raw[k] = weight;
      sum += weight;
    }
    for (let k = 0; k < n; k++) {
      const weight = (sum === 0 ? (raw[k] ?? 0) : (raw[k] ?? 0) / sum) * (1 << WEIGHT_BITS);
      weights[i * stride + k] = Math.trunc(weight < 0 ? weight - 0.5 : weight + 0.5);
    }
    first[i] = low;
    count[i] = n;
  }
  // Neither end of the taps ever moves back from one output to the next.
  const start = first[0] ?? 0;
  const end = (first[length - 1] ?? 0) + (count[length - 1] ?? 0);
  return { first, count, weights, stride, from: start, length: end - start };
}

interface Kernel {
  /** Half width in inputs at scale 1. */
  readonly support: number;
  readonly weigh: (x: number) => number;
}

const KERNELS: Readonly<Record<Exclude<PillowFilter, 'nearest'>, Kernel>> = {
  box: { support: 0.5, weigh: (x) => (x > -0.5 && x <= 0.5 ? 1 : 0) },
  bilinear: { support: 1, weigh: (x) => Math.max(0, 1 - Math.abs(x)) },
  hamming: { support: 1, weigh: hamming },
  bicubic: { support: 2, weigh: bicubic },
  lanczos: { support: 3, weigh: (x) => (x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0) },
};

function hamming(x: number): number {
  const distance = Math.abs(x);
  if (distance === 0) return 1;
  if (distance >= 1) return 0;
  const angle = distance * Math.PI;
  return (Math.sin(angle) / angle) * (0.54 + 0.46 * Math.cos(angle));
}

/** Keys' cubic with a = -0.5. */
function bicubic(x: number): number {
  const a = -0.5;
  const distance = Math.abs(x);
  if (distance < 1) return ((a + 2) * distance - (a + 3)) * distance * distance + 1;
  if (distance < 2) return (((distance - 5) * distance + 8) * distance - 4) * a;
  return 0;
}

function sinc(x: number): number {
  if (x === 0) return 1;
  const angle = x * Math.PI;
  return Math.sin(angle) / angle;
}
