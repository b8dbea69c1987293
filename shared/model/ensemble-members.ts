import { nearestName } from '../nearest-name.ts';
import type { ModelConfig } from '../proto/generated/model_config_pb.ts';
import { type Datatype, datatypeOfConfig } from '../tensor/datatype.ts';
import { shownNames, shownShape } from '../tensor/text.ts';
import {
  type EnsembleGraph,
  type EnsembleStep,
  type EnsembleTensor,
  shownStep,
  type StepTensor,
} from './ensemble-graph.ts';
import { bridgeBetween, type EndShape, endShape } from './ensemble-shapes.ts';
import type { ReadyModel, TensorSpec } from './ready-model.ts';

/** One end of an edge of the graph. */
interface End extends EndShape {
  readonly where: string;
  readonly datatype: Datatype | undefined;
  /** It can do without the tensor, or may come without it. */
  readonly optional: boolean;
}

/**
 * What does not fit between a completed config of an ensemble, whose graph is sound, and its members, one text for each
 * misfit. `models` are those of the steps, in their order.
 */
export function findMemberMisfits(config: ModelConfig, graph: EnsembleGraph, models: readonly ReadyModel[]): string[] {
  const problems: string[] = [];
  for (const step of graph.steps) {
    const model = models[step.index];
    if (model) problems.push(...misfitsOfStep(step, model, config));
  }
  for (const tensor of graph.tensors.values()) problems.push(...misfitsOfTensor(tensor, config, models));
  return problems;
}

function misfitsOfStep(step: EnsembleStep, model: ReadyModel, config: ModelConfig): string[] {
  const problems: string[] = [];
  const where = shownStep(step);
  if (model.maxBatchSize > 0 && model.maxBatchSize < config.maxBatchSize) {
    const sizes = `max_batch_size is ${model.maxBatchSize}, and the ensemble's is ${config.maxBatchSize}`;
    problems.push(`${where}: ${sizes}; set the ensemble's to ${model.maxBatchSize} or less`);
  }
  if (config.responseCache?.enable && !model.config.responseCache?.enable) {
    const repair = 'set it to true there too, so that a change of the model is told from what is kept';
    problems.push(`${where}: the ensemble has response_cache { enable: true } and the model does not; ${repair}`);
  }
  for (const input of step.inputs) problems.push(...unknownTensor(where, 'input', input, model.inputs));
  for (const output of step.outputs) problems.push(...unknownTensor(where, 'output', output, model.outputs));
  for (const { name, optional } of model.inputs) {
    if (optional || step.inputs.some((input) => input.name === name)) continue;
    problems.push(`${where}, input "${name}": the model needs it, and input_map does not have it`);
  }
  return problems;
}

function unknownTensor(
  where: string,
  kind: 'input' | 'output',
  { name }: StepTensor,
  specs: readonly TensorSpec[],
): string[] {
  const names = specs.map((spec) => spec.name);
  if (names.includes(name)) return [];
  const nearest = nearestName(name, names);
  const hint = nearest === undefined ? '' : `; did you mean "${nearest}"?`;
  return [`${where}: the model has no ${kind} "${name}", its ${kind}s are ${shownNames(names)}${hint}`];
}

function misfitsOfTensor(tensor: EnsembleTensor, config: ModelConfig, models: readonly ReadyModel[]): string[] {
  const source = sourceOf(tensor, config, models);
  if (!source) return [];
  const targets = [...readersOf(tensor, models), ...outputOf(tensor, config)];
  return targets.flatMap((target) => misfitsOfEdge(tensor.name, source, target));
}

function misfitsOfEdge(tensor: string, source: End, target: End): string[] {
  const problems: string[] = [];
  if (source.datatype !== target.datatype) {
    const types = `expected datatype ${target.datatype ?? 'none'}, but tensor "${tensor}" is ${source.datatype ?? 'none'}`;
    problems.push(`${target.where}: ${types} from ${source.where}`);
  }
  if (bridgeBetween(source, target) === undefined) {
    const shapes = `expected shape ${shownShape(target.shape)}, but tensor "${tensor}" is ${shownShape(source.shape)}`;
    problems.push(`${target.where}: ${shapes} from ${source.where}`);
  }
  if (source.optional && !target.optional) {
    problems.push(`${target.where}: the model needs tensor "${tensor}", which is optional in the ensemble`);
  }
  return problems;
}

/** What gives the tensor; undefined where that is unknown, which has been said. */
function sourceOf(tensor: EnsembleTensor, config: ModelConfig, models: readonly ReadyModel[]): End | undefined {
  if (tensor.isInput) {
    const input = config.input.find(({ name }) => name === tensor.name);
    if (!input) return undefined;
    const shape = endShape(input.dims, config.maxBatchSize > 0);
    const datatype = datatypeOfConfig(input.dataType);
    return { ...shape, where: `input "${input.name}" of the ensemble`, datatype, optional: input.optional };
  }
  const [writer] = tensor.writers;
  const model = writer && models[writer.step.index];
  const spec = model?.outputs.find(({ name }) => name === writer?.name);
  if (!writer || !model || !spec) return undefined;
  return memberEnd(model, spec, `${shownStep(writer.step)}, output "${writer.name}"`);
}

function readersOf(tensor: EnsembleTensor, models: readonly ReadyModel[]): End[] {
  return tensor.readers.flatMap(({ step, name }) => {
    const model = models[step.index];
    const spec = model?.inputs.find((input) => input.name === name);
    return model && spec ? [memberEnd(model, spec, `${shownStep(step)}, input "${name}"`)] : [];
  });
}

function memberEnd(model: ReadyModel, { shape, datatype, optional }: TensorSpec, where: string): End {
  return { where, datatype, optional, shape, batched: model.maxBatchSize > 0 };
}

function outputOf(tensor: EnsembleTensor, config: ModelConfig): End[] {
  const output = tensor.isOutput ? config.output.find(({ name }) => name === tensor.name) : undefined;
  if (!output) return [];
  const shape = endShape(output.dims, config.maxBatchSize > 0);
  const datatype = datatypeOfConfig(output.dataType);
  return [{ ...shape, where: `output "${output.name}" of the ensemble`, datatype, optional: false }];
}
