/**
 * Reads the part of YAML that our own container files keep to: block maps and block lists, plain and quoted scalars
 * without escapes, lists of quoted texts in one line, comments on lines of their own. Anything else is an error, so what passes here means
 * the same to every YAML reader.
 */
export function parseYamlSubset(text: string): unknown {
  const lines = text.split('\n').flatMap((raw, index) => readLine(raw, index + 1));
  const cursor: Cursor = { lines, at: 0 };
  const value = readBlock(cursor, 0);
  const rest = cursor.lines[cursor.at];
  if (rest) throw problem(rest, 'has an indentation that fits nothing above it');
  return value;
}

/** A quoted text without escapes: it reads the same in both kinds of quotes. */
const QUOTED = `(?:'[^'\\\\]*'|"[^"\\\\]*")`;

interface Line {
  readonly number: number;
  readonly indent: number;
  readonly text: string;
}

interface Cursor {
  readonly lines: readonly Line[];
  at: number;
}

function readLine(raw: string, number: number): Line[] {
  const text = raw.trim();
  if (text === '' || text.startsWith('#')) return [];
  const line = { number, indent: raw.length - raw.trimStart().length, text };
  if (raw.includes('\t')) throw problem(line, 'has a tab');
  if (raw !== raw.trimEnd()) throw problem(line, 'ends with a space');
  if (line.indent % 2 !== 0) throw problem(line, 'is indented by an odd number of spaces');
  return [line];
}

function readBlock(cursor: Cursor, indent: number): unknown {
  const first = cursor.lines[cursor.at];
  if (first?.indent !== indent) return null;
  return first.text.startsWith('- ') ? readList(cursor, indent) : readMap(cursor, indent);
}

function readList(cursor: Cursor, indent: number): unknown[] {
  const list: unknown[] = [];
  for (let line = cursor.lines[cursor.at]; line?.indent === indent; line = cursor.lines[cursor.at]) {
    if (!line.text.startsWith('- ')) throw problem(line, 'is not an item of the list around it');
    cursor.at++;
    list.push(readScalar(line, line.text.slice(2)));
  }
  return list;
}

function readMap(cursor: Cursor, indent: number): Record<string, unknown> {
  const map: Record<string, unknown> = {};
  for (let line = cursor.lines[cursor.at]; line?.indent === indent; line = cursor.lines[cursor.at]) {
    const match = /^([\w-]+):(?: (.+))?$/.exec(line.text);
    const key = match?.[1];
    if (key === undefined) throw problem(line, 'is not "key: value"');
    if (Object.hasOwn(map, key)) throw problem(line, 'repeats a key');
    cursor.at++;
    map[key] = match?.[2] === undefined ? readBlock(cursor, indent + 2) : readScalar(line, match[2]);
  }
  return map;
}

function readScalar(line: Line, text: string): unknown {
  if (new RegExp(`^${QUOTED}$`).test(text)) return unquote(text);
  if (new RegExp(`^\\[${QUOTED}(?:, ${QUOTED})*\\]$`).test(text)) {
    return text.match(new RegExp(QUOTED, 'g'))?.map(unquote);
  }
  if (/^["{}[\]&*!|>'%@`,?:#]|: |:$| #/.test(text) || /^(?:yes|no|on|off|y|n|null|~|0\d+)$/i.test(text)) {
    throw problem(line, 'needs quotes');
  }
  if (text === 'true' || text === 'false') return text === 'true';
  return /^-?\d+(?:\.\d+)?$/.test(text) ? Number(text) : text;
}

function unquote(text: string): string {
  return text.slice(1, -1);
}

function problem(line: Line, what: string): Error {
  return new Error(`line ${line.number} ${what}: ${line.text}`);
}
