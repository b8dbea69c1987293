import { nearestName } from '../nearest-name.ts';
import type { ModelConfig } from '../proto/generated/model_config_pb.ts';
import {
  type EnsembleGraph,
  type EnsembleStep,
  type EnsembleTensor,
  parseEnsembleGraph,
  shownStep,
  type StepEnd,
} from './ensemble-graph.ts';

/** What is wrong with the config of an ensemble whatever its members are, one text for each problem. */
export function findEnsembleProblems(config: ModelConfig): string[] {
  const graph = parseEnsembleGraph(config);
  const problems = fieldsWithoutMeaning(config);
  if (graph.steps.length === 0) return [...problems, 'ensemble_scheduling: expected one step or more, there is none'];
  for (const step of graph.steps) problems.push(...problemsOfStep(step, config));
  for (const tensor of graph.tensors.values()) problems.push(...problemsOfTensor(tensor, graph));
  problems.push(...findCircle(graph));
  return problems;
}

/** An ensemble runs nothing itself. */
function fieldsWithoutMeaning(config: ModelConfig): string[] {
  const problems: string[] = [];
  const used: readonly (readonly [string, boolean])[] = [
    ['instance_group', config.instanceGroup.length > 0],
    ['optimization', config.optimization !== undefined],
    ['model_warmup', config.modelWarmup.length > 0],
    ['model_operations', config.modelOperations !== undefined],
  ];
  for (const [field, present] of used) {
    if (present) problems.push(`${field} is not for ensembles; it belongs into the configs of the steps' models`);
  }
  for (const [kind, tensors] of [['input', config.input] as const, ['output', config.output] as const]) {
    for (const { name, reshape } of tensors) {
      if (reshape) problems.push(`${kind} "${name}": reshape is not for ensembles; it belongs into the step's model`);
    }
  }
  return problems;
}

function problemsOfStep(step: EnsembleStep, config: ModelConfig): string[] {
  const problems: string[] = [];
  const where = step.model === '' ? `step ${step.index + 1}` : shownStep(step);
  if (step.model === '') problems.push(`${where}: model_name is missing`);
  if (step.model === config.name) problems.push(`${where}: an ensemble cannot be a step of itself`);
  if (step.version !== '' && BigInt(step.version) < 1n) {
    const given = step.version === '0' ? 'it is 0 or missing' : `got ${step.version}`;
    const expected = 'expected a version from 1 up, or -1 for the one that the model serves by default';
    problems.push(`${where}: model_version: ${expected}, ${given}`);
  }
  const choice = config.schedulingChoice;
  const written = choice.case === 'ensembleScheduling' ? choice.value.step[step.index] : undefined;
  if (written && written.modelNamespace !== '') problems.push(`${where}: model_namespace is not supported yet`);
  for (const [map, tensors] of [['input_map', step.inputs] as const, ['output_map', step.outputs] as const]) {
    if (tensors.length === 0) problems.push(`${where}: ${map} is missing; a step needs one or more`);
    for (const { name, tensor } of tensors) {
      if (name === '' || tensor === '') {
        problems.push(`${where}: ${map}: expected a key and a value, got "${name}" and "${tensor}"`);
      }
    }
  }
  return problems;
}

function problemsOfTensor(tensor: EnsembleTensor, graph: EnsembleGraph): string[] {
  const { name, isInput, isOutput, writers, readers } = tensor;
  if (name === '') return []; // said of the step already
  const problems: string[] = [];
  const [writer] = writers;
  if (writers.length > 1) {
    problems.push(`tensor "${name}" is written more than once: ${writers.map(shownOutput).join('; ')}`);
  }
  if (isInput && writer) {
    problems.push(`${shownOutput(writer)}: tensor "${name}" is an input of the ensemble, which no step may write`);
  }
  if (isInput && isOutput) {
    problems.push(`output "${name}" is an input of the ensemble too; an output is what a step writes`);
  }
  const isWritten = isInput || writer !== undefined;
  const isRead = isOutput || readers.length > 0;
  if (!isWritten) {
    for (const end of readers) {
      const what = `tensor "${name}" is written by no step and is no input of the ensemble`;
      problems.push(
        `${shownInput(end)}: ${what}${hint(name, graph, ({ isInput: sent, writers: w }) => sent || w.length > 0)}`,
      );
    }
    if (isOutput) {
      const what = `output "${name}" is written by no step`;
      problems.push(`${what}${hint(name, graph, (other) => other.writers.length > 0)}`);
    }
  }
  if (!isRead && writer) {
    const what = `tensor "${name}" is read by no step and is no output of the ensemble`;
    const fix = hint(name, graph, isWanted) || '; leave it out of output_map';
    problems.push(`${shownOutput(writer)}: ${what}${fix}`);
  }
  if (isInput && readers.length === 0 && !isOutput) {
    problems.push(`input "${name}" is read by no step${hint(name, graph, isWanted)}`);
  }
  return problems;
}

function shownInput({ step, name }: StepEnd): string {
  return `${shownStep(step)}, input "${name}"`;
}

function shownOutput({ step, name }: StepEnd): string {
  return `${shownStep(step)}, output "${name}"`;
}

/** Somebody wants the tensor and nobody gives it. */
function isWanted({ isInput, isOutput, writers, readers }: EnsembleTensor): boolean {
  return !isInput && writers.length === 0 && (isOutput || readers.length > 0);
}

function hint(name: string, graph: EnsembleGraph, fits: (other: EnsembleTensor) => boolean): string {
  const others = [...graph.tensors.values()].filter((other) => other.name !== name && other.name !== '' && fits(other));
  const nearest = nearestName(
    name,
    others.map((other) => other.name),
  );
  return nearest === undefined ? '' : `; did you mean "${nearest}"?`;
}

/** Steps that wait for each other. Tensors with other problems are taken as given, since those have been said. */
function findCircle(graph: EnsembleGraph): string[] {
  const stuck = new Set(graph.steps);
  const needs = (step: EnsembleStep) =>
    step.inputs.flatMap(({ tensor }) => {
      const known = graph.tensors.get(tensor);
      const writer = known?.isInput || tensor === '' ? undefined : known?.writers[0];
      return writer && stuck.has(writer.step) ? [{ tensor, from: writer.step }] : [];
    });
  for (let progress = true; progress;) {
    progress = false;
    for (const step of stuck) {
      if (needs(step).length > 0) continue;
      stuck.delete(step);
      progress = true;
    }
  }
  const [first] = stuck;
  if (!first) return [];
  // Each of them needs another of them, so the way back must meet itself.
  const way: EnsembleStep[] = [];
  let step = first;
  while (!way.includes(step)) {
    way.push(step);
    step = needs(step)[0]?.from ?? step;
  }
  const texts = way.slice(way.indexOf(step)).map((member) => {
    const need = needs(member)[0];
    return `${shownStep(member)}, needs "${need?.tensor ?? ''}" from step ${(need?.from.index ?? 0) + 1}`;
  });
  return [`steps wait for each other: ${texts.join('; ')}`];
}
