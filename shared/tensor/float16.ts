/**
 * The two 16-bit float formats. Numbers are rounded to the nearest value, ties to even, straight from the double: going
 * through float32 would round twice.
 */
interface HalfFormat {
  /** Stored bits of the mantissa. */
  readonly mantissaBits: number;
  /** Exponent of the smallest normal number. */
  readonly minExponent: number;
  readonly maxFinite: number;
  /** Bit patterns without sign. */
  readonly infinity: number;
  readonly nan: number;
}

const FLOAT16: HalfFormat = {
  mantissaBits: 10,
  minExponent: -14,
  maxFinite: 65504,
  infinity: 0x7c00,
  nan: 0x7e00,
};

const BFLOAT16: HalfFormat = {
  mantissaBits: 7,
  minExponent: -126,
  maxFinite: 2 ** 127 * (2 - 2 ** -7),
  infinity: 0x7f80,
  nan: 0x7fc0,
};

export const FLOAT16_MAX = FLOAT16.maxFinite;
export const BFLOAT16_MAX = BFLOAT16.maxFinite;

/** The bits of the float16 nearest to a number; infinity beyond the range. */
export function float16Bits(value: number): number {
  return bitsOf(value, FLOAT16);
}

/** The bits of the bfloat16 nearest to a number; infinity beyond the range. */
export function bfloat16Bits(value: number): number {
  return bitsOf(value, BFLOAT16);
}

/** The number that float16 bits stand for. */
export function float16Value(bits: number): number {
  return valueOf(bits, FLOAT16);
}

/** The number that bfloat16 bits stand for. */
export function bfloat16Value(bits: number): number {
  return valueOf(bits, BFLOAT16);
}

function bitsOf(value: number, format: HalfFormat): number {
  if (Number.isNaN(value)) return format.nan;
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  const magnitude = Math.abs(value);
  if (magnitude === 0) return sign;
  if (magnitude > format.maxFinite * 2) return sign | format.infinity;
  let exponent = Math.max(Math.floor(Math.log2(magnitude)), format.minExponent);
  // log2 may land on the wrong side of a power of two by its last bit.
  if (exponent > format.minExponent && 2 ** exponent > magnitude) exponent--;
  const steps = roundToEven(magnitude / 2 ** (exponent - format.mantissaBits));
  // In steps of its own exponent a normal number lies in [2^m, 2^(m+1)]; the carry at the top, the step from subnormal
  // to normal and the overflow to infinity all fall out of adding the mantissa to the exponent field.
  const bits = (exponent - format.minExponent) * 2 ** format.mantissaBits + steps;
  return sign | Math.min(bits, format.infinity);
}

function valueOf(bits: number, format: HalfFormat): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const rest = bits & 0x7fff;
  if (rest > format.infinity) return NaN;
  if (rest === format.infinity) return sign * Infinity;
  const exponent = rest >> format.mantissaBits;
  const mantissa = rest & (2 ** format.mantissaBits - 1);
  if (exponent === 0) return sign * mantissa * 2 ** (format.minExponent - format.mantissaBits);
  return sign * (2 ** format.mantissaBits + mantissa) * 2 ** (exponent - 1 + format.minExponent - format.mantissaBits);
}

/** For numbers from 0 to 2^51: adding 2^52 leaves no room for a fraction, so the addition itself rounds to even. */
function roundToEven(value: number): number {
  return value + 2 ** 52 - 2 ** 52;
}
