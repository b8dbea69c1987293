import { isUtf8 } from 'node:buffer';
import { InferError } from '../errors.ts';
import { decodeBytes } from './bytes.ts';
import { elementsOf, type Floats } from './elements.ts';
import type { Tensor } from './tensor.ts';

/** Bytes of tensor data that one JSON array may hold. As text it is several times longer, and a string ends at 512 MB. */
const MAX_JSON_DATA_BYTES = 64 * 1024 * 1024;

/**
 * A tensor's values as the text of one flat JSON array. 64-bit integers are exact. The floats that JSON has no number for
 * are the strings "NaN", "Infinity" and "-Infinity", so that it is strict JSON, or the bare words for a client that wants
 * Triton's form.
 * @param where for messages: "output y"
 * @throws InferError INVALID_ARGUMENT for what has no JSON form (FP16, BF16, BYTES that are not UTF-8) or is too large.
 */
export function encodeJsonData(where: string, tensor: Tensor, bareFloats = false): string {
  if (tensor.datatype === 'FP16' || tensor.datatype === 'BF16') {
    throw new InferError(
      'INVALID_ARGUMENT',
      `${where}: ${tensor.datatype} cannot travel as JSON; ask for it with binary_data: true`,
    );
  }
  if (tensor.data.byteLength > MAX_JSON_DATA_BYTES) {
    throw new InferError(
      'INVALID_ARGUMENT',
      `${where}: ${tensor.data.byteLength} bytes are too many for JSON (at most ${MAX_JSON_DATA_BYTES}); ask for it with binary_data: true`,
    );
  }
  const elements = elementsOf(tensor);
  switch (elements.kind) {
    case 'integers':
    case 'longs':
      return `[${elements.values.join(',')}]`;
    case 'floats':
      return encodeFloats(elements.values, bareFloats);
    case 'booleans':
      return encodeBooleans(elements.values);
    case 'bytes':
      return encodeTexts(where, tensor.data);
  }
}

function encodeFloats(values: Floats, bareFloats: boolean): string {
  // Element by element, because join would write NaN and Infinity bare and turn -0 into 0.
  let text = '';
  for (const value of values) {
    if (value === 0) text += Object.is(value, -0) ? ',-0.0' : ',0';
    else if (Number.isFinite(value)) text += `,${value}`;
    else text += bareFloats ? `,${value}` : `,"${value}"`;
  }
  return `[${text.slice(1)}]`;
}

function encodeBooleans(values: Uint8Array): string {
  let text = '';
  for (const value of values) text += value === 0 ? ',false' : ',true';
  return `[${text.slice(1)}]`;
}

function encodeTexts(where: string, data: Uint8Array): string {
  const texts = decodeBytes(data).map((element, i) => {
    if (!isUtf8(element)) {
      throw new InferError(
        'INVALID_ARGUMENT',
        `${where}: element ${i} is not UTF-8 text and cannot travel as JSON; ask for it with binary_data: true`,
      );
    }
    return JSON.stringify(Buffer.from(element.buffer, element.byteOffset, element.byteLength).toString());
  });
  return `[${texts.join(',')}]`;
}
