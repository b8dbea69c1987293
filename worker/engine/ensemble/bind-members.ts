import { InferError } from '../../../shared/errors.ts';
import type { EnsembleGraph, EnsembleStep } from '../../../shared/model/ensemble-graph.ts';
import { findMemberMisfits } from '../../../shared/model/ensemble-members.ts';
import type { ReadyModel, TensorSpec } from '../../../shared/model/ready-model.ts';
import type { ServedModel } from '../served-model.ts';
import type { MemberList } from './find-members.ts';
import { modelsOfSteps } from './find-members.ts';

/** A tensor of a step's model, and where the request keeps it. */
export interface BoundTensor {
  readonly spec: TensorSpec;
  readonly slot: number;
}

/** A step with the model version that runs it. */
export interface BoundStep {
  readonly step: EnsembleStep;
  readonly served: ServedModel;
  /** Its tensors have a batch dimension. */
  readonly batched: boolean;
  readonly inputs: readonly BoundTensor[];
  readonly outputs: readonly BoundTensor[];
}

/** The steps of an ensemble over the members that serve now. Requests share it until a member changes. */
export interface Binding {
  readonly members: readonly ServedModel[];
  readonly steps: readonly BoundStep[];
  /** Of the ensemble, in the order of its config. */
  readonly outputs: readonly BoundTensor[];
}

/** @throws InferError UNAVAILABLE when a member has changed so that it does not fit any more. */
export function bindMembers(
  ensemble: ReadyModel,
  graph: EnsembleGraph,
  list: MemberList,
  members: readonly ServedModel[],
): Binding {
  const problems = findMemberMisfits(ensemble.config, graph, modelsOfSteps(list, members));
  if (problems.length > 0) {
    const text = `ensemble '${ensemble.name}' does not fit its members any more: ${problems.join('; ')}`;
    throw new InferError('UNAVAILABLE', text);
  }
  const slotOf = (tensor: string) => graph.tensors.get(tensor)?.index ?? -1;
  const steps = graph.steps.flatMap((step) => {
    const served = members[list.ofStep[step.index] ?? -1];
    return served ? [bindStep(step, served, slotOf)] : []; // there is one for each step
  });
  return { members, steps, outputs: ensemble.outputs.map((spec) => ({ spec, slot: slotOf(spec.name) })) };
}

function bindStep(step: EnsembleStep, served: ServedModel, slotOf: (tensor: string) => number): BoundStep {
  const { inputs, outputs, maxBatchSize } = served.ready;
  const bind = (specs: readonly TensorSpec[], tensors: EnsembleStep['inputs']) =>
    specs.flatMap((spec) => {
      const mapped = tensors.find(({ name }) => name === spec.name);
      return mapped ? [{ spec, slot: slotOf(mapped.tensor) }] : [];
    });
  return {
    step,
    served,
    batched: maxBatchSize > 0,
    inputs: bind(inputs, step.inputs),
    outputs: bind(outputs, step.outputs),
  };
}
