import type { Tensor } from '../../../shared/tensor/tensor.ts';
import { withGeneratedMasks } from './generated-masks.ts';
import type { ModelPlan } from './model-plan.ts';

/** The inputs of a checked request in the order of the config, masks made up; optional ones may be missing. */
export function orderInputs(plan: ModelPlan, given: readonly Tensor[]): readonly Tensor[] {
  const { inputs, padding } = plan;
  let inOrder = given.length === inputs.length;
  for (let i = 0; inOrder && i < given.length; i += 1) inOrder = given[i]?.name === inputs[i]?.spec.name;
  if (inOrder) return given;
  const ordered = inputs.flatMap(({ spec }) => given.find((tensor) => tensor.name === spec.name) ?? []);
  return padding ? withGeneratedMasks(plan, padding, ordered) : ordered;
}
