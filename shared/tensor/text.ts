const MAX_SHOWN = 80;

/** A client's own text for an error message: never long, however long the text is. */
export function shownText(text: string, maxLength = MAX_SHOWN): string {
  return text.length <= maxLength ? text : `${text.slice(0, maxLength)}… (${text.length} characters)`;
}

/** A client's own JSON value for an error message. Arrays and objects are named by kind, never printed. */
export function shownValue(value: unknown): string {
  if (value === undefined) return 'nothing';
  if (value === null) return 'null';
  if (typeof value === 'string') return shownText(JSON.stringify(value.slice(0, MAX_SHOWN + 1)));
  if (typeof value === 'number' || typeof value === 'boolean' || typeof value === 'bigint') return String(value);
  return Array.isArray(value) ? 'an array' : 'an object';
}

/** A shape for an error message, as KServe writes it: [1,3,224,224]. */
export function shownShape(shape: readonly number[]): string {
  return shownText(`[${shape.join(',')}]`);
}

/** Names for an error message: all of them when they are few. */
export function shownNames(names: readonly string[]): string {
  if (names.length === 0) return 'none';
  const shown = names
    .slice(0, 20)
    .map((name) => shownText(name))
    .join(', ');
  return names.length <= 20 ? shown : `${shown} and ${names.length - 20} more`;
}
