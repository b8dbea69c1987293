import type { TokenPooling } from '../preprocess/model-profile.ts';

/** A vector, or one vector per token. */
export type Vector = Float32Array | Float64Array;

export interface TokenRange {
  readonly start: number;
  readonly count: number;
}

/** One vector per token of a row that is `width` numbers a token, padding left out. */
export function tokenVectors(row: Vector, width: number, { start, count }: TokenRange): Vector[] {
  return Array.from({ length: count }, (_, index) => {
    const from = (start + index) * width;
    return row.subarray(from, from + width);
  });
}

/** The vector of a text from those of its tokens, in float32 as sentence-transformers computes it. */
export function poolTokens(tokens: readonly Vector[], { mode, normalize }: TokenPooling): Float32Array {
  const pooled = mode === 'cls' ? Float32Array.from(tokens[0] ?? []) : mean(tokens);
  return normalize ? normalized(pooled) : pooled;
}

/** To length 1; a vector of zeros stays what it is. */
export function normalized(vector: Vector): Float32Array {
  let sum = 0;
  for (const value of vector) sum += value * value;
  const length = Math.max(Math.sqrt(sum), 1e-12);
  return Float32Array.from(vector, (value) => value / length);
}

function mean(tokens: readonly Vector[]): Float32Array {
  const sums = new Float64Array(tokens[0]?.length ?? 0);
  for (const token of tokens) for (let i = 0; i < sums.length; i++) sums[i] = (sums[i] ?? 0) + (token[i] ?? 0);
  return Float32Array.from(sums, (sum) => sum / tokens.length);
}
