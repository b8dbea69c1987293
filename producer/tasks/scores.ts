/** One answer of a classifier, as the Hugging Face API writes it. */
export interface LabelScore {
  readonly label: string;
  readonly score: number;
}

/** `detect`: softmax, unless the numbers are a distribution already. */
export type ScoreFunction = 'detect' | 'softmax' | 'sigmoid' | 'none';

type Numbers = Float32Array | Float64Array;

/** The `topK` best labels of one row, best first. Equal scores keep the order of the labels. */
export function topScores(row: Numbers, labels: readonly string[], how: ScoreFunction, topK: number): LabelScore[] {
  const scores = scoresOf(row, how);
  const order = Array.from(scores.keys()).sort((a, b) => (scores[b] ?? 0) - (scores[a] ?? 0) || a - b);
  const best = topK < order.length ? order.slice(0, topK) : order;
  return best.map((index) => ({ label: labels[index] ?? `LABEL_${index}`, score: scores[index] ?? 0 }));
}

/** Each label once, with its best score. `sorted` is best first. */
export function onceEach(sorted: readonly LabelScore[]): LabelScore[] {
  const seen = new Set<string>();
  return sorted.filter(({ label }) => !seen.has(label) && seen.add(label));
}

function scoresOf(row: Numbers, how: ScoreFunction): Numbers {
  switch (how) {
    case 'none':
      return row;
    case 'sigmoid':
      return Float64Array.from(row, (value) => 1 / (1 + Math.exp(-value)));
    case 'softmax':
      return softmax(row);
    case 'detect':
      return isDistribution(row) ? row : softmax(row);
  }
}

/** Models export either logits or probabilities and no file says which. Logits never look like this by chance. */
function isDistribution(row: Numbers): boolean {
  let sum = 0;
  for (const value of row) {
    if (!(value >= 0 && value <= 1)) return false;
    sum += value;
  }
  return Math.abs(sum - 1) < 1e-3;
}

function softmax(row: Numbers): Float64Array {
  let max = -Infinity;
  for (const value of row) if (value > max) max = value;
  const powers = Float64Array.from(row, (value) => Math.exp(value - max));
  let sum = 0;
  for (const power of powers) sum += power;
  return powers.map((power) => power / sum);
}
