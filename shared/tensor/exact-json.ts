import { InferError } from '../errors.ts';

const MAX_DEPTH = 128;
/** More digits than any integer datatype has; what is longer can only be a float, written oddly. */
const MAX_INTEGER_LENGTH = 40;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const BARE_FLOAT = /(-?)(NaN|Inf(?:inity)?)/y;
const WHITESPACE = /[ \t\r\n]*/y;

/**
 * Parses JSON like JSON.parse, but integers beyond 2^53 become bigint instead of the nearest double.
 *
 * JSON.parse gives no access to a number's text before Node 21, and is several times faster. So it always goes first;
 * only when it has returned an integer outside the safe range, where digits may have been lost, is the same text read
 * again with this. That is sound: rounding never brings an unsafe integer back into the safe range.
 * @throws InferError INVALID_ARGUMENT for text that JSON.parse would refuse too, and for nesting beyond 128 levels.
 */
export function parseExactJson(text: string): unknown {
  return parseDocument({ text, at: 0, exactIntegers: true, bareFloats: false });
}

/**
 * Parses JSON with Triton's addition: the bare words NaN, Infinity and Inf, with a minus or without, are numbers. A number
 * that is written out and beyond the range of a double is an error here, so that infinity always means the word.
 * @param exactIntegers whether integers beyond 2^53 become bigint, as parseExactJson does it
 * @throws InferError INVALID_ARGUMENT
 */
export function parseBareFloatJson(text: string, exactIntegers: boolean): unknown {
  return parseDocument({ text, at: 0, exactIntegers, bareFloats: true });
}

/** Whether a text that JSON.parse refuses may be one for parseBareFloatJson. */
export function hasBareFloats(text: string): boolean {
  return /\b(?:NaN|Inf(?:inity)?)\b/.test(text);
}

interface Cursor {
  readonly text: string;
  readonly exactIntegers: boolean;
  readonly bareFloats: boolean;
  at: number;
}

function parseDocument(cursor: Cursor): unknown {
  const value = parseValue(cursor, 0);
  skipWhitespace(cursor);
  if (cursor.at < cursor.text.length) throw syntaxError(cursor);
  return value;
}

function parseValue(cursor: Cursor, depth: number): unknown {
  if (depth > MAX_DEPTH) {
    throw new InferError('INVALID_ARGUMENT', `JSON is nested deeper than ${MAX_DEPTH} levels`);
  }
  skipWhitespace(cursor);
  switch (cursor.text[cursor.at]) {
    case '{':
      return parseObject(cursor, depth);
    case '[':
      return parseArray(cursor, depth);
    case '"':
      return parseString(cursor);
    case 't':
      return parseWord(cursor, 'true', true);
    case 'f':
      return parseWord(cursor, 'false', false);
    case 'n':
      return parseWord(cursor, 'null', null);
    default:
      return parseNumber(cursor);
  }
}

function parseObject(cursor: Cursor, depth: number): Record<string, unknown> {
  const entries: [string, unknown][] = [];
  cursor.at++;
  if (!takeClosing(cursor, '}')) {
    do {
      skipWhitespace(cursor);
      const key = parseString(cursor);
      skipWhitespace(cursor);
      if (cursor.text[cursor.at] !== ':') throw syntaxError(cursor);
      cursor.at++;
      entries.push([key, parseValue(cursor, depth + 1)]);
    } while (takeComma(cursor, '}'));
  }
  // fromEntries defines own properties, "__proto__" included, as JSON.parse does.
  return Object.fromEntries(entries);
}

function parseArray(cursor: Cursor, depth: number): unknown[] {
  const values: unknown[] = [];
  cursor.at++;
  if (!takeClosing(cursor, ']')) {
    do values.push(parseValue(cursor, depth + 1));
    while (takeComma(cursor, ']'));
  }
  return values;
}

function parseString(cursor: Cursor): string {
  const { text, at } = cursor;
  if (text[at] !== '"') throw syntaxError(cursor);
  let end = text.indexOf('"', at + 1);
  while (end > 0 && isEscaped(text, end)) end = text.indexOf('"', end + 1);
  if (end < 0) throw syntaxError(cursor);
  cursor.at = end + 1;
  const literal = text.slice(at, end + 1);
  try {
    // The literal alone is a JSON document; this resolves escapes and refuses control characters.
    return JSON.parse(literal) as string; // it starts and ends with quotes, so it is a string or it throws
  } catch {
    cursor.at = at;
    throw syntaxError(cursor);
  }
}

/** Whether the quote at `at` belongs to the string: an odd number of backslashes stands before it. */
function isEscaped(text: string, at: number): boolean {
  let backslashes = 0;
  while (text[at - 1 - backslashes] === '\\') backslashes++;
  return backslashes % 2 === 1;
}

function parseNumber(cursor: Cursor): number | bigint {
  const { text, at } = cursor;
  NUMBER.lastIndex = at;
  if (!NUMBER.test(text)) return parseBareFloat(cursor);
  cursor.at = NUMBER.lastIndex;
  const literal = text.slice(at, cursor.at);
  const value = Number(literal);
  if (Number.isSafeInteger(value)) return value;
  if (cursor.exactIntegers && literal.length <= MAX_INTEGER_LENGTH && /^-?\d+$/.test(literal)) return BigInt(literal);
  if (cursor.bareFloats && !Number.isFinite(value)) {
    throw new InferError('INVALID_ARGUMENT', `JSON has a number beyond the range of a double at character ${at}`);
  }
  return value;
}

function parseBareFloat(cursor: Cursor): number {
  BARE_FLOAT.lastIndex = cursor.at;
  const match = cursor.bareFloats ? BARE_FLOAT.exec(cursor.text) : null;
  if (!match) throw syntaxError(cursor);
  cursor.at = BARE_FLOAT.lastIndex;
  if (match[2] === 'NaN') return NaN;
  return match[1] === '-' ? -Infinity : Infinity;
}

function parseWord<T>(cursor: Cursor, word: string, value: T): T {
  if (!cursor.text.startsWith(word, cursor.at)) throw syntaxError(cursor);
  cursor.at += word.length;
  return value;
}

/** Steps over the closing bracket of something empty. */
function takeClosing(cursor: Cursor, closing: string): boolean {
  skipWhitespace(cursor);
  if (cursor.text[cursor.at] !== closing) return false;
  cursor.at++;
  return true;
}

/** Steps over what follows an element: true for a comma, false for the closing bracket. */
function takeComma(cursor: Cursor, closing: string): boolean {
  skipWhitespace(cursor);
  const found = cursor.text[cursor.at];
  if (found !== ',' && found !== closing) throw syntaxError(cursor);
  cursor.at++;
  return found === ',';
}

function skipWhitespace(cursor: Cursor): void {
  // Nearly always nothing is there to skip. Codes above the space are no white space; NaN at the end is not either.
  if (!(cursor.text.charCodeAt(cursor.at) <= 0x20)) return;
  WHITESPACE.lastIndex = cursor.at;
  WHITESPACE.test(cursor.text);
  cursor.at = WHITESPACE.lastIndex;
}

function syntaxError(cursor: Cursor): InferError {
  return new InferError('INVALID_ARGUMENT', `JSON cannot be parsed at character ${cursor.at}`);
}
