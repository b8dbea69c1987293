import { type ConfigToken, positionOf, tokenizeConfig } from './config-tokens.ts';

/** Where a text stopped making sense. Lines and columns count from 1, columns in characters. */
export interface ConfigErrorPlace {
  /** The same place as an index into the text. */
  readonly index: number;
  readonly line: number;
  readonly column: number;
  /** The token at that place; '' at the end of the text. */
  readonly token: string;
  /** The token in front of it; '' at the start. */
  readonly previous: string;
  /** At the end of the text: the innermost bracket that was never closed. */
  readonly unclosed: { readonly bracket: string; readonly line: number; readonly column: number } | undefined;
}

/**
 * Finds the place of an error that comes without one. The parser reads tokens from left to right and stops at the first
 * wrong one, so it is enough to find the shortest run of leading tokens that it refuses: each run is given to it with a
 * character behind that no token may start with, and either it gets as far as that character or it stopped before.
 * Longer runs stop where shorter ones do, which allows a binary search: some 17 parses for a file of 100 kB.
 */
export function locateConfigError(text: string, problemOf: (text: string) => string | undefined): ConfigErrorPlace {
  const tokens = tokenizeConfig(text);
  const stop = unusedCharacter(text);
  const reachedStop = problemOf(stop);
  let low = 0;
  let high = tokens.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const prefix = text.slice(0, tokens[middle]?.end);
    if (problemOf(`${prefix}\n${stop}`) === reachedStop) low = middle + 1;
    else high = middle;
  }
  // The bytes of a string are looked at after the token behind it, which could have been a part of the string.
  if (low > 0 && problemOf(text)?.startsWith('invalid UTF-8')) low--;
  const at = tokens[low];
  const before = tokens[low - 1];
  const index = at?.start ?? before?.end ?? 0;
  return {
    index,
    ...positionOf(text, index),
    token: at ? text.slice(at.start, at.end) : '',
    previous: before ? text.slice(before.start, before.end) : '',
    unclosed: at ? undefined : innermostUnclosed(text, tokens),
  };
}

/** A character that the text does not contain and that the text format has no use for: one from the private use area. */
function unusedCharacter(text: string): string {
  let code = 0xe000;
  while (text.includes(String.fromCharCode(code))) code++;
  return String.fromCharCode(code);
}

function innermostUnclosed(text: string, tokens: readonly ConfigToken[]): ConfigErrorPlace['unclosed'] {
  const open: ConfigToken[] = [];
  for (const token of tokens) {
    const first = text[token.start] ?? '';
    if ('{<['.includes(first)) open.push(token);
    else if ('}>]'.includes(first)) open.pop();
  }
  const last = open.at(-1);
  return last && { bracket: text.slice(last.start, last.end), ...positionOf(text, last.start) };
}
