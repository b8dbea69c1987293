import type { Datatype } from '../../../../../shared/tensor/datatype.ts';
import { byteSizeOf } from '../../../../../shared/tensor/datatype.ts';
import type { ModelPlan, TensorPlan } from '../../../../../worker/engine/batch/model-plan.ts';

export interface TensorOptions {
  readonly optional?: boolean;
  readonly modelShape?: readonly number[];
}

export function tensorPlan(
  name: string,
  datatype: Datatype,
  shape: readonly number[],
  { optional = false, modelShape = shape }: TensorOptions = {},
): TensorPlan {
  return {
    spec: { name, datatype, shape, modelShape, optional, labels: [] },
    elementBytes: byteSizeOf(datatype),
    reshaped: modelShape !== shape,
  };
}

/** A batching model with the input `x` and the output `y`, both FP32 with rows of one variable dimension. */
export function modelPlan(overrides: Partial<ModelPlan> = {}): ModelPlan {
  const inputs = overrides.inputs ?? [tensorPlan('x', 'FP32', [-1, -1])];
  const outputs = overrides.outputs ?? [tensorPlan('y', 'FP32', [-1, -1])];
  const { maxRows = 8, batched = true } = overrides;
  return {
    model: 'm',
    version: '1',
    batched: true,
    maxRows: 8,
    contract: {
      name: 'm',
      maxBatchSize: batched ? maxRows : 0,
      inputs: inputs.map(({ spec }) => spec),
      outputs: outputs.map(({ spec }) => spec),
    },
    inputs,
    outputs,
    outputNames: outputs.map(({ spec }) => spec.name),
    oneGroup: false,
    ...overrides,
  };
}
