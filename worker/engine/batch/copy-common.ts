/**
 * Copies the elements that two row-major arrays have in common, counted from the beginning of each dimension: the whole of
 * the smaller one where one is longer in some dimensions. Shapes have equal ranks.
 */
export function copyCommon(
  source: Uint8Array,
  sourceShape: readonly number[],
  target: Uint8Array,
  targetShape: readonly number[],
  elementBytes: number,
): void {
  let last = sourceShape.length - 1;
  let inner = elementBytes;
  // Behind the last dimension in which they differ, rows lie in one piece.
  while (last > 0 && sourceShape[last] === targetShape[last]) {
    inner *= sourceShape[last] ?? 1;
    last -= 1;
  }
  copyLevel(source, strideList(sourceShape, last, inner), target, strideList(targetShape, last, inner), inner, 0, 0, 0);
}

/** Lengths of the dimensions up to `last`, and the bytes from one step of each to the next. */
interface Strides {
  readonly dims: readonly number[];
  readonly bytes: readonly number[];
}

function strideList(shape: readonly number[], last: number, inner: number): Strides {
  const bytes: number[] = [];
  let step = inner;
  for (let i = last; i >= 0; i -= 1) {
    bytes[i] = step;
    step *= shape[i] ?? 1;
  }
  return { dims: shape.slice(0, last + 1), bytes };
}

function copyLevel(
  source: Uint8Array,
  from: Strides,
  target: Uint8Array,
  to: Strides,
  inner: number,
  level: number,
  sourceAt: number,
  targetAt: number,
): void {
  const count = Math.min(from.dims[level] ?? 0, to.dims[level] ?? 0);
  if (level === from.dims.length - 1) {
    target.set(source.subarray(sourceAt, sourceAt + count * inner), targetAt);
    return;
  }
  const sourceStep = from.bytes[level] ?? 0;
  const targetStep = to.bytes[level] ?? 0;
  for (let i = 0; i < count; i += 1) {
    copyLevel(source, from, target, to, inner, level + 1, sourceAt + i * sourceStep, targetAt + i * targetStep);
  }
}

/** Fills the whole target, which is a whole number of elements long, with one element. */
export function fillWith(target: Uint8Array, element: Uint8Array): void {
  if (element.byteLength < 2) {
    target.fill(element[0] ?? 0);
    return;
  }
  target.set(element.subarray(0, Math.min(element.byteLength, target.byteLength)));
  for (let filled = element.byteLength; filled < target.byteLength; filled *= 2) {
    target.copyWithin(filled, 0, Math.min(filled, target.byteLength - filled));
  }
}
