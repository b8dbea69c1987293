import { type ConfigToken, tokenizeConfig } from './config-tokens.ts';

/** Where a field of a config stands in its text. A list of messages gives one node for each of its elements. */
export interface ConfigField {
  readonly name: string;
  /** From the name, or for a further element of a list from its bracket, to the end of the value, as indices. */
  readonly start: number;
  readonly end: number;
  /** Scalars: the value as written, strings without quotes. '' for messages. */
  readonly value: string;
  /** Messages: the fields inside. */
  readonly fields: readonly ConfigField[];
}

/** A name, or the element of a repeated field or map that has this name or key, or stands at this place. */
export type FieldStep = string | { readonly name: string; readonly entry: string | number };

/** The fields of a config that the parser has taken, or that it refuses for its names and values only. */
export function readConfigFields(text: string): ConfigField[] {
  return readFields({ text, tokens: tokenizeConfig(text), at: 0, depth: 0 });
}

/** The field at the end of a path, or the last one on the way that is there; undefined when not even the first is. */
export function findConfigField(fields: readonly ConfigField[], path: readonly FieldStep[]): ConfigField | undefined {
  let found: ConfigField | undefined;
  let inside = fields;
  for (const step of path) {
    const next = typeof step === 'string' ? inside.find(({ name }) => name === step) : findEntry(inside, step);
    if (!next) return found;
    found = next;
    inside = next.fields;
  }
  return found;
}

/** The smallest field that a place of the text lies in. */
export function fieldAt(fields: readonly ConfigField[], index: number): ConfigField | undefined {
  const outer = fields.find(({ start, end }) => start <= index && index < end);
  return outer && (fieldAt(outer.fields, index) ?? outer);
}

function findEntry(
  fields: readonly ConfigField[],
  { name, entry }: { name: string; entry: string | number },
): ConfigField | undefined {
  const entries = fields.filter((field) => field.name === name);
  if (typeof entry === 'number') return entries[entry];
  return entries.find(({ fields: inner }) =>
    inner.some((field) => (field.name === 'name' || field.name === 'key') && field.value === entry),
  );
}

interface Cursor {
  readonly text: string;
  readonly tokens: readonly ConfigToken[];
  at: number;
  depth: number;
}

/** As the parser's own: deeper messages are refused. */
const MAX_DEPTH = 100;

const OPENING = ['{', '<'];
const CLOSING = ['}', '>'];

/** Reads up to the bracket that closes the message, or to the end. */
function readFields(cursor: Cursor): ConfigField[] {
  const fields: ConfigField[] = [];
  for (let token = peek(cursor); token !== undefined && !CLOSING.includes(token); token = peek(cursor)) {
    if (token === ',' || token === ';') cursor.at++;
    else fields.push(...readField(cursor));
  }
  return fields;
}

function readField(cursor: Cursor): ConfigField[] {
  const name = peek(cursor) ?? '';
  const start = startOf(cursor);
  cursor.at++;
  if (peek(cursor) === ':') cursor.at++;
  if (peek(cursor) !== '[') return [readValue(cursor, name, start)];
  if (!OPENING.includes(peek(cursor, 1) ?? '')) return [readScalars(cursor, name, start)];
  cursor.at++;
  const elements: ConfigField[] = [];
  for (let token = peek(cursor); token !== undefined && token !== ']'; token = peek(cursor)) {
    if (token === ',') cursor.at++;
    else elements.push(readValue(cursor, name, startOf(cursor)));
  }
  cursor.at++;
  return elements;
}

function readValue(cursor: Cursor, name: string, start: number): ConfigField {
  if (OPENING.includes(peek(cursor) ?? '')) {
    cursor.at++;
    cursor.depth++;
    const fields = cursor.depth > MAX_DEPTH ? [] : readFields(cursor);
    cursor.depth--;
    cursor.at++; // the closing bracket
    return { name, start, end: endOf(cursor), value: '', fields };
  }
  let value = '';
  do {
    value += unquoted(peek(cursor) ?? '');
    cursor.at++;
  } while (isQuoted(peek(cursor)) && isQuoted(peek(cursor, -1))); // adjacent strings are one
  return { name, start, end: endOf(cursor), value, fields: [] };
}

function readScalars(cursor: Cursor, name: string, start: number): ConfigField {
  const from = startOf(cursor);
  for (let token = peek(cursor); token !== undefined && token !== ']'; token = peek(cursor)) cursor.at++;
  cursor.at++;
  const end = endOf(cursor);
  return { name, start, end, value: cursor.text.slice(from, end), fields: [] };
}

function peek({ text, tokens, at }: Cursor, ahead = 0): string | undefined {
  const token = tokens[at + ahead];
  return token && text.slice(token.start, token.end);
}

function startOf({ text, tokens, at }: Cursor): number {
  return tokens[at]?.start ?? text.length;
}

/** The end of the last token that was read. */
function endOf({ text, tokens, at }: Cursor): number {
  return tokens[at - 1]?.end ?? text.length;
}

function isQuoted(token: string | undefined): boolean {
  return token?.startsWith('"') === true || token?.startsWith("'") === true;
}

function unquoted(token: string): string {
  return isQuoted(token) ? token.slice(1, -1) : token;
}
