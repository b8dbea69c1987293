import type { RequestContract } from '../../../shared/infer/validate-request.ts';
import type { ReadyModel, TensorSpec } from '../../../shared/model/ready-model.ts';
import { byteSizeOf } from '../../../shared/tensor/datatype.ts';
import { createPaddingPlan, type PaddingPlan } from './padding-plan.ts';

/** What merging and splitting need to know of one input or output, computed once when the model is loaded. */
export interface TensorPlan {
  readonly spec: TensorSpec;
  /** Bytes of one element; 0 for BYTES. */
  readonly elementBytes: number;
  /** The client's shape and the model's differ. */
  readonly reshaped: boolean;
}

export interface ModelPlan {
  readonly model: string;
  readonly version: string;
  /** As in ReadyModel; part of every answer. */
  readonly identity?: string | undefined;
  /** Tensors have a batch dimension in front. */
  readonly batched: boolean;
  /** Most rows of one request and of one run; 1 without a batch dimension. */
  readonly maxRows: number;
  /** What every request is checked against. */
  readonly contract: RequestContract;
  readonly inputs: readonly TensorPlan[];
  readonly outputs: readonly TensorPlan[];
  readonly outputNames: readonly string[];
  /** Every input is required and all its dimensions are fixed: any two requests may share a run. */
  readonly oneGroup: boolean;
  /** How requests of different lengths share a run; absent where the config says nothing of it. */
  readonly padding?: PaddingPlan | undefined;
}

/** `oneRowReason` limits the model to one row at a time. */
export function createModelPlan(model: ReadyModel, oneRowReason = ''): ModelPlan {
  const batched = model.maxBatchSize > 0;
  const maxRows = oneRowReason === '' ? Math.max(1, model.maxBatchSize) : 1;
  const { name, inputs, outputs } = model;
  const note = oneRowReason === '' ? {} : { batchNote: oneRowReason };
  const padding = createPaddingPlan(model);
  return {
    model: model.name,
    version: model.version,
    identity: model.identity,
    batched,
    maxRows,
    contract: { name, maxBatchSize: batched ? maxRows : 0, inputs, outputs, ...note },
    inputs: inputs.map((spec, index) =>
      planTensor(padding?.inputs[index]?.role === 'generated_mask' ? { ...spec, optional: false } : spec),
    ),
    outputs: outputs.map(planTensor),
    outputNames: model.outputs.map((spec) => spec.name),
    oneGroup: model.inputs.every((spec) => !spec.optional && !spec.shape.slice(batched ? 1 : 0).includes(-1)),
    padding,
  };
}

function planTensor(spec: TensorSpec): TensorPlan {
  const { shape, modelShape } = spec;
  const reshaped = shape.length !== modelShape.length || shape.some((dim, index) => dim !== modelShape[index]);
  return { spec, elementBytes: byteSizeOf(spec.datatype), reshaped };
}

/**
 * The shape `actual`, which fits `from`, as it looks in `to`: both have the same number of -1, which stand for the same
 * dimensions in order.
 */
export function reshape(actual: readonly number[], from: readonly number[], to: readonly number[]): number[] {
  let at = -1;
  return to.map((dim) => {
    if (dim !== -1) return dim;
    at = from.indexOf(-1, at + 1);
    return actual[at] ?? 1;
  });
}
