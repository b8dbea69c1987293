import { InferError } from '../errors.ts';
import type { Datatype } from './datatype.ts';
import { bfloat16Value, float16Value } from './float16.ts';
import { decodeJsonData } from './json-decode.ts';

/**
 * One element from its text: whole numbers, decimal numbers, NaN, Infinity, -Infinity, true and false. undefined for a
 * text that is none of the datatype, for BYTES, and for numbers that FP16 or BF16 does not hold exactly.
 */
export function encodeElement(datatype: Datatype, text: string): Uint8Array | undefined {
  if (datatype === 'BYTES') return undefined;
  if (datatype === 'FP16' || datatype === 'BF16') return encodeHalf(datatype, text);
  const value = valueOf(datatype, text);
  if (value === undefined) return undefined;
  try {
    return decodeJsonData('', datatype, 1, [value], () => [value]);
  } catch (error) {
    if (error instanceof InferError) return undefined; // out of its range
    throw error;
  }
}

const NUMBER = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/i;

function valueOf(datatype: Datatype, text: string): number | bigint | boolean | string | undefined {
  switch (datatype) {
    case 'BOOL':
      return text === 'true' || text === '1' ? true : text === 'false' || text === '0' ? false : undefined;
    case 'FP32':
    case 'FP64':
      if (text === 'NaN' || text === 'Infinity' || text === '-Infinity') return text;
      return NUMBER.test(text) ? Number(text) : undefined;
    case 'INT64':
    case 'UINT64':
      return /^-?\d{1,20}$/.test(text) ? BigInt(text) : undefined;
    default:
      return /^-?\d{1,10}$/.test(text) ? Number(text) : undefined;
  }
}

/** All patterns are tried, which is for values that are encoded once. */
function encodeHalf(datatype: 'FP16' | 'BF16', text: string): Uint8Array | undefined {
  const value = valueOf('FP64', text);
  if (value === undefined) return undefined;
  const valueOfBits = datatype === 'FP16' ? float16Value : bfloat16Value;
  const wanted = Number(value);
  for (let bits = 0; bits <= 0xffff; bits += 1) {
    if (Object.is(valueOfBits(bits), wanted)) return new Uint8Array([bits & 0xff, bits >> 8]);
  }
  return undefined;
}
