/** The longest dimension and the largest element count that a number holds exactly. */
const MAX_ELEMENTS = BigInt(Number.MAX_SAFE_INTEGER);

/** Dims as people write them in a config: `[ 3, -1 ]`. */
export function formatDims(dims: readonly (number | bigint)[]): string {
  return dims.length === 0 ? '[ ]' : `[ ${dims.join(', ')} ]`;
}

/** Why dims cannot be a tensor's; undefined when they can. */
export function problemOfDims(dims: readonly bigint[]): string | undefined {
  let elements = 1n;
  for (const dim of dims) {
    if (dim !== -1n && dim < 1n)
      return `${dim.toString()} is not a dimension; expected 1 or more, or -1 for any length`;
    if (dim > 0n) elements *= dim;
    if (elements > MAX_ELEMENTS) return `more than ${MAX_ELEMENTS.toString()} elements`;
  }
  return undefined;
}

/**
 * Whether the elements of one shape can always be laid out as the other: the stretches between variable dimensions must
 * hold equally many elements each, so that every -1 of one stands for the -1 of the other.
 */
export function canReshape(from: readonly bigint[], to: readonly bigint[]): boolean {
  const a = fixedProducts(from);
  const b = fixedProducts(to);
  return a.length === b.length && a.every((product, index) => product === b[index]);
}

function fixedProducts(dims: readonly bigint[]): bigint[] {
  const products: bigint[] = [];
  let product = 1n;
  for (const dim of dims) {
    if (dim === -1n) {
      products.push(product);
      product = 1n;
    } else product *= dim;
  }
  products.push(product);
  return products;
}
