import type { Tensor } from '../../../shared/tensor/tensor.ts';
import { elementCount } from '../../../shared/tensor/tensor.ts';
import { Assembler, type BatchMember } from './assemble.ts';
import { copyCommon, fillWith } from './copy-common.ts';
import type { ModelPlan, TensorPlan } from './model-plan.ts';
import { reshape } from './model-plan.ts';
import type { InputPadding, PaddingPlan } from './padding-plan.ts';
import { runLengthOf } from './padding-plan.ts';
import { Staging } from './staging.ts';

/** Merges requests into the tensors of one run; see `Assembler`. */
export interface BatchAssembler {
  assemble(members: readonly BatchMember[], rows: number): Tensor[];
}

export function createAssembler(plan: ModelPlan): BatchAssembler {
  return plan.padding?.active ? new PaddedAssembler(plan, plan.padding) : new Assembler(plan);
}

/** Merges requests of different lengths: the shorter ones are padded. What needs no padding goes the plain way. */
class PaddedAssembler implements BatchAssembler {
  readonly #plan: ModelPlan;
  readonly #padding: PaddingPlan;
  readonly #staging = new Staging();
  readonly #plain: Assembler;

  constructor(plan: ModelPlan, padding: PaddingPlan) {
    this.#plan = plan;
    this.#padding = padding;
    this.#plain = new Assembler(plan, this.#staging);
  }

  assemble(members: readonly BatchMember[], rows: number): Tensor[] {
    const length = runLengthOf(this.#plan, this.#padding, members);
    if (length === 0) return this.#plain.assemble(members, rows);
    const tensors: Tensor[] = [];
    const first = members[0]?.inputs ?? [];
    let at = 0;
    for (let i = 0; i < first.length; i += 1) {
      const tensor = first[i];
      while (at < this.#plan.inputs.length && this.#plan.inputs[at]?.spec.name !== tensor?.name) at += 1; // both are in the order of the config
      const planned = this.#plan.inputs[at];
      const padded = this.#padding.inputs[at];
      if (!tensor || !planned) continue;
      tensors.push(
        padded
          ? this.#pad(planned, padded, members, i, rows, length)
          : this.#plain.assembleInput(planned, tensor, members, i, rows),
      );
    }
    return tensors;
  }

  #pad(
    { spec, elementBytes, reshaped }: TensorPlan,
    { axes, fill }: InputPadding,
    members: readonly BatchMember[],
    index: number,
    rows: number,
    length: number,
  ): Tensor {
    const shape = (members[0]?.inputs[index]?.shape ?? []).slice();
    shape[0] = rows;
    for (const axis of axes) shape[axis] = length;
    const data = this.#staging.take(index, elementCount(shape) * elementBytes);
    fillWith(data, fill);
    const rowBytes = (elementCount(shape) / Math.max(1, rows)) * elementBytes;
    let offset = 0;
    for (const { inputs } of members) {
      const tensor = inputs[index];
      if (!tensor) continue;
      const own = tensor.shape[0] ?? 0;
      const target = data.subarray(offset, offset + own * rowBytes);
      copyCommon(tensor.data, tensor.shape, target, [own, ...shape.slice(1)], elementBytes);
      offset += own * rowBytes;
    }
    const modelShape = reshaped ? reshape(shape, spec.shape, spec.modelShape) : shape;
    if (reshaped) modelShape[0] = rows;
    return { name: spec.name, datatype: spec.datatype, shape: modelShape, data };
  }
}
