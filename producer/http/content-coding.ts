/** The ways of compression that are spoken, beside `identity` for none. */
export type ContentCoding = 'gzip' | 'deflate';

/** For the header that says what a request may be compressed with. */
export const CONTENT_CODINGS = 'gzip, deflate';

const WEIGHT = /^\s*q\s*=\s*(0(?:\.\d{0,3})?|1(?:\.0{0,3})?)\s*$/i;

/**
 * What an answer is to be compressed with, from the client's Accept-Encoding: the first of the highest weight among
 * gzip, deflate and identity, as Triton chooses. Other words, `*` among them, say nothing; undefined is identity.
 */
export function pickCoding(acceptEncoding: string): ContentCoding | undefined {
  let best: ContentCoding | undefined;
  let bestWeight = 0;
  for (const entry of acceptEncoding.split(',')) {
    const [word = '', ...parameters] = entry.split(';');
    const coding = word.trim().toLowerCase();
    if (coding !== 'gzip' && coding !== 'deflate' && coding !== 'identity') continue;
    const weight = weightOf(parameters);
    if (weight <= bestWeight) continue;
    bestWeight = weight;
    best = coding === 'identity' ? undefined : coding;
  }
  return best;
}

/** From 0 to 1; an entry whose weight cannot be read is not wanted. */
function weightOf(parameters: readonly string[]): number {
  const [parameter] = parameters;
  if (parameter === undefined) return 1;
  return Number(WEIGHT.exec(parameter)?.[1] ?? 0);
}
