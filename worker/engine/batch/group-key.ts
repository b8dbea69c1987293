import type { Tensor } from '../../../shared/tensor/tensor.ts';
import type { ModelPlan } from './model-plan.ts';

/**
 * What requests must have in common to share a run: which inputs they bring and the dimensions of each but the batch
 * dimension. Datatypes have been checked against the model, so they never differ. '' where any two requests fit.
 */
export function groupKey(plan: ModelPlan, inputs: readonly Tensor[]): string {
  if (plan.oneGroup) return '';
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
