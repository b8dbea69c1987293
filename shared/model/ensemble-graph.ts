import type { ModelConfig, ModelEnsembling_Step } from '../proto/generated/model_config_pb.ts';

/** An input or output of a step's model, and the tensor of the ensemble that it takes or gives. */
export interface StepTensor {
  readonly name: string;
  readonly tensor: string;
}

export interface EnsembleStep {
  /** From 0; messages count from 1. */
  readonly index: number;
  readonly model: string;
  /** '' for the version that the model's own policy gives. */
  readonly version: string;
  readonly inputs: readonly StepTensor[];
  readonly outputs: readonly StepTensor[];
}

/** Where a tensor enters or leaves a step. */
export interface StepEnd {
  readonly step: EnsembleStep;
  /** The name that the step's model has for the tensor. */
  readonly name: string;
}

export interface EnsembleTensor {
  /** Position among all tensors of the ensemble. */
  readonly index: number;
  readonly name: string;
  /** The client sends it. */
  readonly isInput: boolean;
  /** The client gets it. */
  readonly isOutput: boolean;
  /** None for an input, one for any other tensor of a sound ensemble. */
  readonly writers: readonly StepEnd[];
  readonly readers: readonly StepEnd[];
}

/** The steps of an ensemble and the tensors between them. */
export interface EnsembleGraph {
  readonly name: string;
  readonly steps: readonly EnsembleStep[];
  readonly tensors: ReadonlyMap<string, EnsembleTensor>;
  /** Most requests in flight at each step, over all requests of the ensemble; 0 for no limit. */
  readonly maxInflight: number;
}

/** A model that an ensemble needs; version '' is the one that the model's own policy gives. */
export interface MemberName {
  readonly model: string;
  readonly version: string;
}

export function isEnsemble(config: ModelConfig): boolean {
  return config.platform === 'ensemble' || config.schedulingChoice.case === 'ensembleScheduling';
}

/**
 * The graph as it is written, sound or not. Where the config lists no inputs, those are the tensors that are read and that
 * nobody writes; where it lists no outputs, those that are written and that nobody reads.
 */
export function parseEnsembleGraph(config: ModelConfig): EnsembleGraph {
  const choice = config.schedulingChoice;
  const { step = [], maxInflightRequests = 0 } = choice.case === 'ensembleScheduling' ? choice.value : {};
  const steps = step.map(parseStep);
  return { name: config.name, steps, tensors: connect(config, steps), maxInflight: maxInflightRequests };
}

/** Each member once, in the order of the steps. */
export function memberNames(config: ModelConfig): MemberName[] {
  const { steps } = parseEnsembleGraph(config);
  return distinctMembers(steps);
}

export function distinctMembers(steps: readonly EnsembleStep[]): MemberName[] {
  const members = new Map<string, MemberName>();
  for (const { model, version } of steps) members.set(memberKey({ model, version }), { model, version });
  return [...members.values()];
}

/** Names hold no '/', so no two members have the same. */
export function memberKey({ model, version }: MemberName): string {
  return `${model}/${version}`;
}

/** How messages name a step. */
export function shownStep({ index, model }: Pick<EnsembleStep, 'index' | 'model'>): string {
  return `step ${index + 1}, model "${model}"`;
}

function parseStep(
  { modelName, modelVersion, inputMap, outputMap }: ModelEnsembling_Step,
  index: number,
): EnsembleStep {
  const version = modelVersion === -1n ? '' : modelVersion.toString();
  return { index, model: modelName, version, inputs: tensorsOf(inputMap), outputs: tensorsOf(outputMap) };
}

function tensorsOf(map: Readonly<Record<string, string>>): StepTensor[] {
  return Object.entries(map).map(([name, tensor]) => ({ name, tensor }));
}

function connect(config: ModelConfig, steps: readonly EnsembleStep[]): Map<string, EnsembleTensor> {
  const writers = new Map<string, StepEnd[]>();
  const readers = new Map<string, StepEnd[]>();
  for (const step of steps) {
    for (const { name, tensor } of step.inputs) add(readers, tensor, { step, name });
    for (const { name, tensor } of step.outputs) add(writers, tensor, { step, name });
  }
  const inputs = namesOf(config.input) ?? [...readers.keys()].filter((name) => !writers.has(name));
  const outputs = namesOf(config.output) ?? [...writers.keys()].filter((name) => !readers.has(name));
  const names = new Set([...inputs, ...writers.keys(), ...readers.keys(), ...outputs]);
  const tensors = [...names].map((name, index) => ({
    index,
    name,
    isInput: inputs.includes(name),
    isOutput: outputs.includes(name),
    writers: writers.get(name) ?? [],
    readers: readers.get(name) ?? [],
  }));
  return new Map(tensors.map((tensor) => [tensor.name, tensor]));
}

function add(ends: Map<string, StepEnd[]>, tensor: string, end: StepEnd): void {
  const known = ends.get(tensor);
  if (known) known.push(end);
  else ends.set(tensor, [end]);
}

function namesOf(tensors: readonly { readonly name: string }[]): string[] | undefined {
  return tensors.length === 0 ? undefined : tensors.map(({ name }) => name);
}
