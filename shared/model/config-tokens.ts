/** A token of the text format as a stretch of the text, in UTF-16 units. */
export interface ConfigToken {
  readonly start: number;
  readonly end: number;
}

// Comments; strings, closed or not (they end at the line's end at the latest); words and numbers; any other character.
const TOKEN = /#[^\n]*|"(?:\\[^\n]|[^"\\\n])*"?|'(?:\\[^\n]|[^'\\\n])*'?|[\w.+-]+|\S/gu;

/** Cuts a config's text into tokens, right or wrong; comments and blanks are left out. */
export function tokenizeConfig(text: string): ConfigToken[] {
  const tokens: ConfigToken[] = [];
  for (const match of text.matchAll(TOKEN)) {
    if (!match[0].startsWith('#')) tokens.push({ start: match.index, end: match.index + match[0].length });
  }
  return tokens;
}

/** Line and column of a place in a text, both from 1, columns in characters. */
export function positionOf(text: string, index: number): { line: number; column: number } {
  const lineStart = text.lastIndexOf('\n', index - 1) + 1;
  let line = 1;
  for (let at = text.indexOf('\n'); at !== -1 && at < lineStart; at = text.indexOf('\n', at + 1)) line++;
  return { line, column: Array.from(text.slice(lineStart, index)).length + 1 };
}
