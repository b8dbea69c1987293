import type { Tensor } from '../../../shared/tensor/tensor.ts';
import { elementCount } from '../../../shared/tensor/tensor.ts';
import { encodeElement } from '../../../shared/tensor/encode-element.ts';
import type { ModelPlan } from './model-plan.ts';
import { fillWith } from './copy-common.ts';
import type { InputPadding, PaddingPlan } from './padding-plan.ts';

/**
 * The inputs of a request with the masks that it leaves to the engine: ones, as all that the client sent counts.
 * @param inputs in the order of the config
 */
export function withGeneratedMasks(
  plan: ModelPlan,
  padding: PaddingPlan,
  inputs: readonly Tensor[],
): readonly Tensor[] {
  if (inputs.length === plan.inputs.length) return inputs;
  const whole = new Map(inputs.map((tensor) => [tensor.name, tensor]));
  const model = firstLength(plan, padding, whole);
  return plan.inputs.flatMap(({ spec }, index) => {
    const tensor = whole.get(spec.name);
    if (tensor) return [tensor];
    const padded = padding.inputs[index];
    if (padded?.role !== 'generated_mask' || !model) return [];
    return [maskOf(spec, padded, model.rows, model.length)];
  });
}

/** Rows and length by the first padded input that was sent. */
function firstLength(
  plan: ModelPlan,
  padding: PaddingPlan,
  given: ReadonlyMap<string, Tensor>,
): { rows: number; length: number } | undefined {
  for (const [index, padded] of padding.inputs.entries()) {
    const shape = given.get(plan.inputs[index]?.spec.name ?? '')?.shape;
    if (padded && shape) return { rows: shape[0] ?? 0, length: shape[padded.axes[0] ?? 0] ?? 0 };
  }
  return undefined;
}

function maskOf(
  { name, datatype, shape: declared }: ModelPlan['inputs'][number]['spec'],
  { axes }: InputPadding,
  rows: number,
  length: number,
): Tensor {
  const shape = declared.map((dim, axis) => (axis === 0 ? rows : axes.includes(axis) ? length : dim));
  const one = encodeElement(datatype, '1') ?? new Uint8Array();
  const data = new Uint8Array(elementCount(shape) * one.byteLength);
  fillWith(data, one);
  return { name, datatype, shape, data };
}
