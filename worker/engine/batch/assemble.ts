import { InferError } from '../../../shared/errors.ts';
import type { PixelEncoding, Tensor } from '../../../shared/tensor/tensor.ts';
import { byteLengthOf, elementCount } from '../../../shared/tensor/tensor.ts';
import type { ModelPlan, TensorPlan } from './model-plan.ts';
import { reshape } from './model-plan.ts';
import type { PixelTables } from './pixels.ts';
import { createPixelTables, expandPixels, sameEncoding } from './pixels.ts';
import { Staging } from './staging.ts';

/** A member of a batch, as far as merging sees it. All members have the same group key. */
export interface BatchMember {
  readonly inputs: readonly Tensor[];
}

/** Merges requests into the tensors of one run. One per instance, because it owns the memory that is run. */
export class Assembler {
  readonly #plan: ModelPlan;
  readonly #staging: Staging;
  #tables: PixelTables | undefined;

  constructor(plan: ModelPlan, staging = new Staging()) {
    this.#plan = plan;
    this.#staging = staging;
  }

  /**
   * The merged inputs, `rows` in all, in the model's own shapes. They may be the members' own data or memory of this
   * assembler, which the next call overwrites.
   * @throws InferError INVALID_ARGUMENT when pixels do not fit the tensor they stand for.
   */
  assemble(members: readonly BatchMember[], rows: number): Tensor[] {
    const first = members[0];
    const tensors: Tensor[] = [];
    if (!first) return tensors;
    let at = 0;
    for (let i = 0; i < first.inputs.length; i += 1) {
      const tensor = first.inputs[i];
      while (at < this.#plan.inputs.length && this.#plan.inputs[at]?.spec.name !== tensor?.name) at += 1; // both are in the order of the config
      const planned = this.#plan.inputs[at];
      if (tensor && planned) tensors.push(this.assembleInput(planned, tensor, members, i, rows));
    }
    return tensors;
  }

  /** One of the inputs, the `index`th of each member; see `assemble`. */
  assembleInput(
    planned: TensorPlan,
    first: Tensor,
    members: readonly BatchMember[],
    index: number,
    rows: number,
  ): Tensor {
    const alone = members.length === 1;
    if (alone && !planned.reshaped && isReady(first, planned)) return first; // no copy: the data is run where it lies
    const data = alone && isReady(first, planned) ? first.data : this.#merge(planned, members, index);
    return { name: first.name, datatype: first.datatype, shape: this.#shapeOf(planned, first, rows), data };
  }

  #merge(planned: TensorPlan, members: readonly BatchMember[], index: number): Uint8Array {
    let byteLength = 0;
    for (const { inputs } of members) byteLength += expandedByteLength(inputs[index]);
    const target = this.#staging.take(index, byteLength);
    let offset = 0;
    for (const { inputs } of members) {
      const tensor = inputs[index];
      if (!tensor) continue;
      if (tensor.pixels) this.#expand(tensor, tensor.pixels, planned, target, offset);
      else if (tensor.pieces) tensor.pieces.copyTo(target, offset);
      else target.set(tensor.data, offset);
      offset += expandedByteLength(tensor);
    }
    return target;
  }

  #expand(tensor: Tensor, pixels: PixelEncoding, { spec }: TensorPlan, target: Uint8Array, offset: number): void {
    const rows = this.#plan.batched ? (tensor.shape[0] ?? 0) : 1;
    const channels = tensor.shape.at(pixels.layout === 'NCHW' ? -3 : -1);
    if (channels !== pixels.mean.length || channels !== pixels.std.length) {
      const given = `pixels of ${pixels.mean.length} channels`;
      throw new InferError(
        'INVALID_ARGUMENT',
        `input '${spec.name}' of model '${this.#plan.model}': got ${given} for the ${pixels.layout} shape [${tensor.shape.join(',')}]`,
      );
    }
    if (!this.#tables || !sameEncoding(this.#tables.encoding, pixels)) this.#tables = createPixelTables(pixels);
    const floats = new Float32Array(target.buffer, target.byteOffset, target.byteLength / 4);
    expandPixels(tensor.data, rows, pixels.layout, this.#tables, floats, offset / 4);
  }

  #shapeOf({ spec, reshaped }: TensorPlan, first: Tensor, rows: number): readonly number[] {
    const shape = reshaped ? reshape(first.shape, spec.shape, spec.modelShape) : first.shape.slice();
    if (this.#plan.batched) shape[0] = rows;
    return shape;
  }
}

/** Whether the data can be run as it lies: in one piece, no pixels to expand, and aligned for its datatype. */
function isReady(tensor: Tensor, { elementBytes }: TensorPlan): boolean {
  if (tensor.pixels || tensor.pieces?.isJoined === false) return false;
  return elementBytes < 2 || tensor.data.byteOffset % elementBytes === 0;
}

/** Bytes that a tensor takes in the batch. Pixels stand for FP32. */
function expandedByteLength(tensor: Tensor | undefined): number {
  if (!tensor) return 0;
  return tensor.pixels ? elementCount(tensor.shape) * 4 : byteLengthOf(tensor);
}
