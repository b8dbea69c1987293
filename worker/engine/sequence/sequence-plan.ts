import type { ReadyModel, TensorSpec } from '../../../shared/model/ready-model.ts';
import {
  CONTROL_DIMS,
  type ControlTensor,
  controlsOf,
  sequenceBatchingOf,
  type StateTensor,
  statesOf,
} from '../../../shared/model/sequence-tensors.ts';
import type { ModelPlan } from '../batch/model-plan.ts';
import { createModelPlan } from '../batch/model-plan.ts';

/** A model with sequence batching: what clients send and get, and what the server adds and keeps. */
export interface SequencePlan {
  /** As clients see the model. A request is one row. */
  readonly client: ModelPlan;
  /** As a run sees it: the inputs of clients, then controls, then states; their outputs, then those states that are not among them. */
  readonly run: ModelPlan;
  readonly controls: readonly ControlTensor[];
  readonly states: readonly StateTensor[];
  /** States whose shape may differ from sequence to sequence. */
  readonly statesVary: boolean;
}

const NOTE = 'a request of a sequence is one row';

/** `oneRowReason` limits runs to one row. */
export function createSequencePlan(model: ReadyModel, oneRowReason = ''): SequencePlan {
  const batching = sequenceBatchingOf(model.config);
  const controls = batching ? controlsOf(batching) : [];
  const states = batching ? statesOf(batching) : [];
  const batched = model.maxBatchSize > 0;
  const seen = new Set(model.outputs.map(({ name }) => name));
  const run = createModelPlan(
    {
      ...model,
      inputs: [
        ...model.inputs,
        ...controls.map(({ name, datatype }) => specOf({ name, datatype, dims: CONTROL_DIMS }, batched)),
        ...states.map(({ inputName, datatype, dims }) => specOf({ name: inputName, datatype, dims }, batched)),
      ],
      outputs: [
        ...model.outputs,
        ...states
          .filter(({ outputName }) => !seen.has(outputName))
          .map(({ outputName, datatype, dims }) => specOf({ name: outputName, datatype, dims }, batched)),
      ],
    },
    oneRowReason,
  );
  const client = createModelPlan(model);
  const contract = { ...client.contract, ...(batched && { maxBatchSize: 1, batchNote: NOTE }) };
  const statesVary = states.some(({ dims }) => dims.includes(-1));
  return { client: { ...client, contract }, run, controls, states, statesVary };
}

function specOf(
  { name, datatype, dims }: Pick<TensorSpec, 'name' | 'datatype'> & { dims: readonly number[] },
  batched: boolean,
): TensorSpec {
  const shape = batched ? [-1, ...dims] : dims;
  return { name, datatype, shape, modelShape: shape, optional: false, labels: [] };
}
