import { InferError } from '../../../shared/errors.ts';
import type { TensorSpec } from '../../../shared/model/ready-model.ts';
import { createTensor, type Tensor } from '../../../shared/tensor/tensor.ts';
import { shownShape } from '../../../shared/tensor/text.ts';
import type { Binding, BoundStep } from './bind-members.ts';

/** The tensors of one request of an ensemble, by their slot; optional ones may be missing. */
export type Slots = (Tensor | undefined)[];

const NO_DATA = new Uint8Array(0);

/**
 * What a step's model gets: the tensors under its own names and with its own batch dimension, their data untouched.
 * @throws InferError INVALID_ARGUMENT for several rows where the model takes one.
 */
export function takeInputs({ inputs, batched }: BoundStep, slots: Slots): Tensor[] {
  const taken: Tensor[] = [];
  for (const { spec, slot } of inputs) {
    const tensor = slots[slot];
    if (tensor) taken.push(bridge(tensor, spec, batched));
  }
  return taken;
}

/** A batching model with nothing to do: its input comes from a model that found nothing. */
export function hasNoRows({ batched }: BoundStep, inputs: readonly Tensor[]): boolean {
  return batched && inputs.length > 0 && inputs.every(({ shape }) => shape[0] === 0);
}

/** What a batching model would say to no rows: none. Dimensions that only a run could tell are 0. */
export function giveNoRows(step: BoundStep, slots: Slots): void {
  for (const { spec, slot } of step.outputs) {
    const shape = spec.shape.map((dim, index) => (index === 0 || dim === -1 ? 0 : dim));
    slots[slot] = { name: spec.name, datatype: spec.datatype, shape, data: NO_DATA };
  }
}

/** Keeps the answer of a step. @throws InferError INTERNAL when an output is missing. */
export function giveOutputs(step: BoundStep, asked: readonly string[], outputs: readonly Tensor[], slots: Slots): void {
  for (const { spec, slot } of step.outputs) {
    if (!asked.includes(spec.name)) continue;
    const tensor = outputs.find(({ name }) => name === spec.name);
    if (!tensor) throw new InferError('INTERNAL', `the model gave no output ${spec.name}`);
    slots[slot] = tensor;
  }
}

/** The answer of the ensemble. @throws InferError INTERNAL for a tensor that is not what its config promises. */
export function collectOutputs(
  { outputs }: Binding,
  asked: readonly string[],
  ensembleBatches: boolean,
  slots: Slots,
): Tensor[] {
  const collected: Tensor[] = [];
  for (const { spec, slot } of outputs) {
    if (asked.length > 0 && !asked.includes(spec.name)) continue;
    const tensor = slots[slot];
    if (!tensor) throw new InferError('INTERNAL', `no step has given output ${spec.name}`);
    const bridged = bridge(tensor, spec, ensembleBatches);
    if (!fits(spec.shape, bridged.shape)) {
      const shapes = `expected shape ${shownShape(spec.shape)}, the step has given ${shownShape(tensor.shape)}`;
      throw new InferError('INTERNAL', `output ${spec.name}: ${shapes}`);
    }
    collected.push(bridged);
  }
  return collected;
}

/** The load has checked which dimensions may come and go, so that their number tells which do. */
function bridge(tensor: Tensor, { name, shape: wanted }: TensorSpec, batched: boolean): Tensor {
  const extra = tensor.shape.length - wanted.length;
  let { shape } = tensor;
  if (extra === -1 && batched) shape = [1, ...shape];
  else if (extra === 1 && !batched) {
    if (shape[0] !== 1) {
      const takes = `expected one row, as there is no batch dimension here (shape ${shownShape(wanted)})`;
      throw new InferError('INVALID_ARGUMENT', `tensor ${name}: ${takes}, got shape ${shownShape(shape)}`);
    }
    shape = shape.slice(1);
  }
  if (tensor.name === name && shape === tensor.shape) return tensor;
  return tensor.pieces ? createTensor(name, tensor.datatype, shape, tensor.pieces) : { ...tensor, name, shape };
}

function fits(wanted: readonly number[], given: readonly number[]): boolean {
  return given.length === wanted.length && given.every((dim, index) => wanted[index] === -1 || wanted[index] === dim);
}
