import { isUtf8 } from 'node:buffer';
import { InferError } from '../../../shared/errors.ts';
import { hasBareFloats, parseBareFloatJson, parseExactJson } from '../../../shared/tensor/exact-json.ts';
import { shownText } from '../../../shared/tensor/text.ts';
import { asObject } from './json-fields.ts';

/** The JSON part of a request. */
export interface JsonDocument {
  readonly root: Record<string, unknown>;
  /** Whether the client writes NaN and infinities as bare words, as Triton does; then these are such numbers in `root`. */
  readonly bareFloats: boolean;
  /** The same text parsed again with integers beyond 2^53 as bigint. Slow, so only for those who met one. */
  exact(): Record<string, unknown>;
}

/**
 * Parses the first `length` bytes of a body.
 * @throws InferError INVALID_ARGUMENT for text that is not UTF-8, not JSON or not an object.
 */
export function parseJsonDocument(body: Buffer, length: number): JsonDocument {
  const text = body.toString('utf8', 0, length);
  // Bytes that are not UTF-8 become U+FFFD. The search is nearly free, and only a hit needs the real check.
  if (text.includes('\uFFFD') && !isUtf8(body.subarray(0, length))) {
    throw new InferError('INVALID_ARGUMENT', 'the JSON of the request is not valid UTF-8');
  }
  let root: unknown;
  let bareFloats = false;
  try {
    root = JSON.parse(text);
  } catch (error) {
    // Strict JSON first, because its parser is several times faster.
    bareFloats = hasBareFloats(text);
    if (!bareFloats) throw syntaxError(error);
    root = parseBareFloatJson(text, false);
  }
  let exact: Record<string, unknown> | undefined;
  const parseExact = () => (bareFloats ? parseBareFloatJson(text, true) : parseExactJson(text));
  return {
    root: asObject('the request', root),
    bareFloats,
    exact: () => (exact ??= asObject('the request', parseExact())),
  };
}

function syntaxError(error: unknown): InferError {
  const reason = error instanceof Error ? shownText(error.message) : 'syntax error';
  return new InferError('INVALID_ARGUMENT', `the JSON of the request cannot be parsed: ${reason}`);
}
