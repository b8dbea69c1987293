import type { Tensor } from '../../../shared/tensor/tensor.ts';
import type { ModelPlan } from './model-plan.ts';
import { bucketOf, lengthOf, type PaddingPlan } from './padding-plan.ts';

/**
 * What requests must have in common to share a run: which inputs they bring and the dimensions of each but the batch
 * dimension. Datatypes have been checked against the model, so they never differ. '' where any two requests fit.
 */
export function groupKey(plan: ModelPlan, inputs: readonly Tensor[]): string {
  if (plan.oneGroup) return '';
  if (plan.padding?.active) {
    const bucket = bucketOf(plan.padding, lengthOf(plan, plan.padding, inputs));
    if (bucket > 0) return paddedKey(plan, plan.padding, inputs, bucket);
  }
  let key = '';
  const from = plan.batched ? 1 : 0;
  for (const tensor of inputs) {
    key += tensor.name; // names hold no '\n', and the dimensions follow one, so no two keys can meet
    key += '\n';
    for (let i = from; i < tensor.shape.length; i += 1) key += `${tensor.shape[i] ?? 0},`;
    key += '\n';
  }
  return key;
}

/** As in groupKey, where lengths that are padded need not be equal. */
function paddedKey(
  { inputs: planned }: ModelPlan,
  padding: PaddingPlan,
  inputs: readonly Tensor[],
  bucket: number,
): string {
  let key = `\n${bucket}\n`; // the keys of groupKey begin with a name
  let at = 0;
  for (const tensor of inputs) {
    while (at < planned.length && planned[at]?.spec.name !== tensor.name) at += 1;
    const axes = padding.inputs[at]?.axes;
    key += `${tensor.name}\n`;
    for (let i = 1; i < tensor.shape.length; i += 1) key += axes?.includes(i) ? '~,' : `${tensor.shape[i] ?? 0},`;
    key += '\n';
  }
  return key;
}
