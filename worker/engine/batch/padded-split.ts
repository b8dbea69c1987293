import type { Tensor } from '../../../shared/tensor/tensor.ts';
import { byteSizeOf } from '../../../shared/tensor/datatype.ts';
import { elementCount } from '../../../shared/tensor/tensor.ts';
import { copyCommon } from './copy-common.ts';
import type { ModelPlan } from './model-plan.ts';
import type { PaddedMember, PaddingPlan } from './padding-plan.ts';
import { lengthOf, runLengthOf } from './padding-plan.ts';
import { RowMismatch, type SplitMember, splitOutputs } from './split.ts';

/** An output does not have the length that a padded run was given: what `padding.outputs` says of it is wrong. */
export class LengthMismatch extends RowMismatch {}

/** Takes the outputs of a run apart, and what was padded back to the lengths of the members; see `splitOutputs`. */
export function splitBatch(
  plan: ModelPlan,
  outputs: readonly Tensor[],
  members: readonly (SplitMember & PaddedMember)[],
): Tensor[][] {
  const split = splitOutputs(plan, outputs, members);
  return plan.padding?.active ? cutPadding(plan, plan.padding, split, members) : split;
}

function cutPadding(
  plan: ModelPlan,
  padding: PaddingPlan,
  split: Tensor[][],
  members: readonly PaddedMember[],
): Tensor[][] {
  const runLength = runLengthOf(plan, padding, members);
  if (runLength === 0) return split;
  return split.map((tensors, index) => {
    const length = lengthOf(plan, padding, members[index]?.inputs ?? []);
    return tensors.map((tensor) => {
      const axes = padding.outputs.get(tensor.name);
      if (!axes) return tensor;
      for (const axis of axes) if (tensor.shape[axis] !== runLength) throw lengthError(plan, tensor, axis, runLength);
      return length === runLength ? tensor : cut(tensor, axes, length, byteSizeOf(tensor.datatype));
    });
  });
}

/** A copy, which keeps nothing of the run alive. */
function cut(tensor: Tensor, axes: readonly number[], length: number, elementBytes: number): Tensor {
  const shape = tensor.shape.map((dim, axis) => (axes.includes(axis) ? length : dim));
  const data = new Uint8Array(elementCount(shape) * elementBytes);
  copyCommon(tensor.data, tensor.shape, data, shape, elementBytes);
  return { name: tensor.name, datatype: tensor.datatype, shape, data };
}

function lengthError({ model }: ModelPlan, { name, shape }: Tensor, axis: number, runLength: number): LengthMismatch {
  const got = `its output '${name}' has the shape [${shape.join(',')}]`;
  const expected = `dimension ${axis} must be ${runLength}, as padding.outputs says`;
  return new LengthMismatch(`model '${model}' was run with a length of ${runLength} and ${got}: ${expected}`);
}
