import { isUtf8 } from 'node:buffer';
import { InferError } from '../../../shared/errors.ts';
import { parseExactJson } from '../../../shared/tensor/exact-json.ts';
import { shownText } from '../../../shared/tensor/text.ts';
import { asObject } from './json-fields.ts';

/** The JSON part of a request. */
export interface JsonDocument {
  readonly root: Record<string, unknown>;
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
  let exact: Record<string, unknown> | undefined;
  return {
    root: asObject('the request', parseJson(text)),
    exact: () => (exact ??= asObject('the request', parseExactJson(text))),
  };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    const reason = error instanceof Error ? shownText(error.message) : 'syntax error';
    const hint = /\b(?:NaN|Infinity)\b/.test(text)
      ? '; NaN and Infinity are not JSON: write them as the strings "NaN", "Infinity", "-Infinity"'
      : '';
    throw new InferError('INVALID_ARGUMENT', `the JSON of the request cannot be parsed: ${reason}${hint}`);
  }
}
