/** What the two 16-bit float formats differ in. */
interface HalfFormat {
  /** Stored bits of the mantissa. */
  readonly mantissaBits: number;
  /** Exponent of the smallest normal number. */
  readonly minExponent: number;
  /** Its bit pattern without sign. */
  readonly infinity: number;
}

const FLOAT16: HalfFormat = { mantissaBits: 10, minExponent: -14, infinity: 0x7c00 };
const BFLOAT16: HalfFormat = { mantissaBits: 7, minExponent: -126, infinity: 0x7f80 };

/** The number that float16 bits stand for. */
export function float16Value(bits: number): number {
  return valueOf(bits, FLOAT16);
}

/** The number that bfloat16 bits stand for. */
export function bfloat16Value(bits: number): number {
  return valueOf(bits, BFLOAT16);
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
