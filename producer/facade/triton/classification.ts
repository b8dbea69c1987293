import { InferError } from '../../../shared/errors.ts';
import type { ReadyModel } from '../../../shared/model/ready-model.ts';
import { encodeTexts } from '../../../shared/tensor/bytes.ts';
import { elementsOf, type Floats, type Integers, type Longs } from '../../../shared/tensor/elements.ts';
import { elementCount, type Tensor } from '../../../shared/tensor/tensor.ts';

const MAX_ELEMENTS = 1_000_000;

type Scores = Floats | Integers | Longs;

/** What of a model its classes depend on. */
export type LabelledModel = Pick<ReadyModel, 'outputs' | 'maxBatchSize'>;

/** An output of a model as its best classes, with the labels of the model. @throws InferError as `classify` */
export function classifyOutput(output: Tensor, classes: number, model: LabelledModel): Tensor {
  const labels = model.outputs.find(({ name }) => name === output.name)?.labels ?? [];
  return classify(output, classes, labels, model.maxBatchSize > 0);
}

/**
 * The classification extension: per row the best `classes` scores as texts "value:index[:label]", highest first, equal
 * ones in the order of their index, NaN last.
 * @param batched whether the first dimension counts rows; otherwise all elements compete
 * @throws InferError INVALID_ARGUMENT for datatypes that have no order, and for more than a million scores.
 */
export function classify(tensor: Tensor, classes: number, labels: readonly string[], batched: boolean): Tensor {
  const scores = scoresOf(tensor);
  const rows = batched ? (tensor.shape[0] ?? 1) : 1;
  const rowLength = rows === 0 ? 0 : scores.length / rows;
  const count = Math.min(classes, rowLength);
  const decimals = tensor.datatype.startsWith('FP');
  const texts: string[] = [];
  for (let row = 0; row < rows; row++) {
    const rowScores = scores.subarray(row * rowLength, (row + 1) * rowLength);
    for (const index of bestIndices(rowScores, count)) {
      const label = labels[index];
      const text = `${formatScore(rowScores[index] ?? 0, decimals)}:${index}`;
      texts.push(label === undefined || label === '' ? text : `${text}:${label}`);
    }
  }
  return {
    name: tensor.name,
    datatype: 'BYTES',
    shape: batched ? [rows, count] : [count],
    data: encodeTexts(texts),
  };
}

function scoresOf(tensor: Tensor): Scores {
  const where = `output ${tensor.name}: classification`;
  if (elementCount(tensor.shape) > MAX_ELEMENTS) {
    throw new InferError('INVALID_ARGUMENT', `${where} of more than ${MAX_ELEMENTS} elements`);
  }
  const isHalf = tensor.datatype === 'FP16' || tensor.datatype === 'BF16';
  const elements = elementsOf(tensor);
  if (isHalf || elements.kind === 'booleans' || elements.kind === 'bytes') {
    throw new InferError('INVALID_ARGUMENT', `${where} is not possible for datatype ${tensor.datatype}`);
  }
  return elements.values;
}

/** Indices of the `count` highest scores. One pass that keeps a short sorted list: `count` is small, rows may be long. */
function bestIndices(scores: Scores, count: number): number[] {
  if (count > 64) return [...scores.keys()].sort((a, b) => compare(scores, a, b)).slice(0, count);
  const best: number[] = [];
  for (let index = 0; index < scores.length; index++) {
    const last = best.at(-1);
    if (last !== undefined && best.length === count && compare(scores, index, last) > 0) continue;
    let at = best.length;
    while (at > 0 && compare(scores, index, best[at - 1] ?? 0) < 0) at--;
    best.splice(at, 0, index);
    if (best.length > count) best.pop();
  }
  return best;
}

/** Negative when the score at `a` comes first. */
function compare(scores: Scores, a: number, b: number): number {
  const left = scores[a] ?? 0;
  const right = scores[b] ?? 0;
  if (left > right) return -1;
  if (left < right) return 1;
  if (left === right) return a - b;
  // One of them is NaN, which alone is not equal to itself; Number.isNaN does not take bigint.
  const leftIsNaN = left !== left;
  const rightIsNaN = right !== right;
  return leftIsNaN === rightIsNaN ? a - b : leftIsNaN ? 1 : -1;
}

/** As C++'s std::to_string writes it: six decimals for floats, none for integers. */
function formatScore(score: number | bigint, decimals: boolean): string {
  if (typeof score === 'bigint' || !decimals) return String(score);
  if (Number.isNaN(score)) return 'nan';
  if (!Number.isFinite(score)) return score > 0 ? 'inf' : '-inf';
  // Beyond 1e21 toFixed turns to exponents; such a double is an integer.
  return Math.abs(score) < 1e21 ? score.toFixed(6) : `${BigInt(score)}.000000`;
}
