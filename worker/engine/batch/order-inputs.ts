import type { Tensor } from '../../../shared/tensor/tensor.ts';
import type { ModelPlan } from './model-plan.ts';

/** The inputs of a checked request in the order of the config; optional ones may be missing. */
export function orderInputs({ inputs }: ModelPlan, given: readonly Tensor[]): readonly Tensor[] {
  let inOrder = given.length === inputs.length;
  for (let i = 0; inOrder && i < given.length; i += 1) inOrder = given[i]?.name === inputs[i]?.spec.name;
  if (inOrder) return given;
  return inputs.flatMap(({ spec }) => given.find((tensor) => tensor.name === spec.name) ?? []);
}
