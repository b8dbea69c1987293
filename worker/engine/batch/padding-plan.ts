import { type PaddingRole, paddingSettingsOf } from '../../../shared/model/padding-settings.ts';
import type { ReadyModel } from '../../../shared/model/ready-model.ts';
import type { Tensor } from '../../../shared/tensor/tensor.ts';
import type { ModelPlan } from './model-plan.ts';

/** How one input is padded. */
export interface InputPadding {
  /** Places in its shape, batch dimension included, that have the length of the request. */
  readonly axes: readonly number[];
  readonly role: PaddingRole;
  /** The bytes of one element of padding; one byte where all of them are equal. */
  readonly fill: Uint8Array;
}

/** How requests of different lengths share a run, computed once when the model is loaded. */
export interface PaddingPlan {
  /** False where the load has found that padding changes answers: then nothing is padded, and masks are made up still. */
  readonly active: boolean;
  /** By place in the plan's inputs; undefined for one that is not padded. */
  readonly inputs: readonly (InputPadding | undefined)[];
  /** By name of an output: places in its shape that are cut to the length of the request. */
  readonly outputs: ReadonlyMap<string, readonly number[]>;
  /** Ascending; undefined for powers of two. */
  readonly buckets: readonly number[] | undefined;
  /** Every run has the length of its bucket. */
  readonly roundUp: boolean;
  readonly selfTest: boolean;
}

/** What padding sees of a request. */
export interface PaddedMember {
  /** In the order of the config; optional ones may be missing. */
  readonly inputs: readonly Tensor[];
}

/** Shorter texts cost about what these cost. */
const SMALLEST_BUCKET = 8;

export function createPaddingPlan({ config, inputs }: ReadyModel): PaddingPlan | undefined {
  const settings = paddingSettingsOf(config);
  if (!settings) return undefined;
  const shifted = (axes: readonly number[]) => axes.map((axis) => axis + 1); // behind the batch dimension
  return {
    active: true,
    inputs: inputs.map(({ name }) => {
      const padded = settings.inputs.find((each) => each.name === name);
      return padded && { axes: shifted(padded.axes), role: padded.role, fill: shortest(padded.fill) };
    }),
    outputs: new Map(settings.outputs.map(({ name, axes }) => [name, shifted(axes)])),
    buckets: settings.buckets,
    roundUp: settings.roundUp,
    selfTest: settings.selfTest,
  };
}

function shortest(fill: Uint8Array): Uint8Array {
  return fill.every((byte) => byte === fill[0]) ? fill.subarray(0, 1) : fill;
}

/**
 * The length of a request that may be padded. 0 for one that may not: its inputs do not agree in a length, which is left to
 * the model to refuse, its mask is left out, or it has pixels that stand for numbers.
 */
export function lengthOf({ inputs: planned }: ModelPlan, padding: PaddingPlan, inputs: readonly Tensor[]): number {
  let length = -1;
  let at = 0;
  for (let i = 0; i < planned.length; i += 1) {
    const padded = padding.inputs[i];
    const tensor = inputs[at];
    if (tensor?.name !== planned[i]?.spec.name) {
      if (padded && padded.role !== 'data') return 0;
      continue;
    }
    at += 1;
    if (!padded || !tensor) continue;
    if (tensor.pixels) return 0;
    for (const axis of padded.axes) {
      const dim = tensor.shape[axis] ?? 0;
      if (length < 0) length = dim;
      else if (dim !== length) return 0;
    }
  }
  return Math.max(0, length);
}

/** The bucket of a length, named by the longest in it; 0 beyond the last one, and for no length. */
export function bucketOf({ buckets }: PaddingPlan, length: number): number {
  if (length < 1) return 0;
  if (!buckets) return Math.max(SMALLEST_BUCKET, 2 ** Math.ceil(Math.log2(length)));
  for (const bucket of buckets) if (bucket >= length) return bucket;
  return 0;
}

/** The length that a run of these members, which may share one, is padded to; 0 where none of them is padded. */
export function runLengthOf(plan: ModelPlan, padding: PaddingPlan, members: readonly PaddedMember[]): number {
  if (!padding.active) return 0;
  let longest = 0;
  let shortest = Infinity;
  for (const { inputs } of members) {
    const length = lengthOf(plan, padding, inputs);
    if (length > longest) longest = length;
    if (length < shortest) shortest = length;
  }
  if (shortest === 0) return 0;
  const runLength = padding.roundUp ? bucketOf(padding, longest) || longest : longest;
  return shortest === runLength ? 0 : runLength;
}

/** Rows times length of a run, and how much of that is padding. */
export interface PaddingShare {
  readonly elements: number;
  readonly paddedElements: number;
}

export function paddingShareOf(
  plan: ModelPlan,
  padding: PaddingPlan,
  members: readonly (PaddedMember & { readonly rows: number })[],
): PaddingShare {
  const runLength = runLengthOf(plan, padding, members);
  let elements = 0;
  let paddedElements = 0;
  for (const { inputs, rows } of members) {
    const length = lengthOf(plan, padding, inputs);
    elements += rows * (runLength || length);
    if (runLength > 0) paddedElements += rows * (runLength - length);
  }
  return { elements, paddedElements };
}
