/** The shape of a tensor where it enters or leaves a model: with the batch dimension, when there is one, in front. */
export interface EndShape {
  readonly shape: readonly number[];
  /** The first dimension counts rows. */
  readonly batched: boolean;
}

/** How a tensor changes on its way: not at all, or by a batch dimension of 1 in front that comes or goes. */
export type Bridge = 'same' | 'addBatch' | 'dropBatch';

/**
 * How a tensor gets from one end to another; undefined where it does not fit. Equal shapes always fit, so a model without
 * a batch dimension whose first dimension is free can stand beside a batching one and see all rows at once.
 */
export function bridgeBetween(from: EndShape, to: EndShape): Bridge | undefined {
  if (agree(from.shape, to.shape)) return 'same';
  if (!from.batched && to.batched && agree(from.shape, to.shape.slice(1))) return 'addBatch';
  if (from.batched && !to.batched && agree(from.shape.slice(1), to.shape)) return 'dropBatch';
  return undefined;
}

/** Whether some shape can be both. */
export function agree(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((dim, index) => dim === b[index] || dim === -1 || b[index] === -1);
}

/** The shape of an ensemble's own input or output. */
export function endShape(dims: readonly bigint[], batched: boolean): EndShape {
  const shape = dims.map(Number);
  return { shape: batched ? [-1, ...shape] : shape, batched };
}

/**
 * The dims that an ensemble has to declare for a tensor which a member takes or gives. A row of a batching ensemble is the
 * whole tensor of a member without a batch dimension.
 */
export function dimsFor({ shape, batched }: EndShape, ensembleBatches: boolean): number[] {
  return ensembleBatches && batched ? shape.slice(1) : [...shape];
}
