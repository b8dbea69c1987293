import { clone, create } from '@bufbuild/protobuf';
import { InferError } from '../errors.ts';
import {
  type DataType,
  type ModelConfig,
  ModelConfigSchema,
  ModelDynamicBatchingSchema,
  ModelInputSchema,
  ModelOutputSchema,
  ModelTensorReshapeSchema,
} from '../proto/generated/model_config_pb.ts';
import { configTypeOf } from '../tensor/datatype.ts';
import type { GraphTensor } from './graph-tensor.ts';
import { hiddenInputs, hiddenOutputs } from './sequence-tensors.ts';

/** What auto-complete sets for a model that can batch and whose config says nothing. Counted in rows. */
export const DEFAULT_MAX_BATCH_SIZE = 4;

/** What a model file declares. */
export interface Graph {
  readonly inputs: readonly GraphTensor[];
  readonly outputs: readonly GraphTensor[];
  /** Inputs that have a default in the file; a config may declare them, completion leaves them out. */
  readonly optionalInputs?: readonly GraphTensor[];
}

/**
 * Completes a config, which may be empty, from the model file, by Triton's rules: a config that lists inputs and outputs
 * stays as it is; otherwise the missing side is filled, and batching is turned on where the file allows it. Returns a new
 * config.
 * @throws InferError INVALID_ARGUMENT when the config wants batching and the file cannot batch.
 */
export function completeModelConfig(
  config: ModelConfig,
  graph: Graph,
  defaultMaxBatchSize: number = DEFAULT_MAX_BATCH_SIZE,
): ModelConfig {
  const completed = clone(ModelConfigSchema, config);
  const hasInputs = config.input.length > 0 || config.batchInput.length > 0;
  if (hasInputs && config.output.length > 0) return completed;

  const obstacle = obstacleToBatching(graph);
  if (obstacle === undefined) {
    if (completed.maxBatchSize === 0) completed.maxBatchSize = defaultMaxBatchSize;
    if (completed.maxBatchSize > 1 && completed.schedulingChoice.case === undefined) {
      completed.schedulingChoice = { case: 'dynamicBatching', value: create(ModelDynamicBatchingSchema) };
    }
  } else if (completed.maxBatchSize !== 0) {
    const wanted = `max_batch_size is ${completed.maxBatchSize}, but the model file cannot batch: ${obstacle}`;
    const fix = 'set max_batch_size: 0, or export the model with a dynamic first dimension';
    throw new InferError('INVALID_ARGUMENT', `model "${config.name}": ${wanted}; ${fix}`);
  }

  const batching = completed.maxBatchSize > 0;
  const inputs = byName(graph.inputs, hiddenInputs(config));
  const outputs = byName(graph.outputs, hiddenOutputs(config));
  if (!hasInputs) completed.input = inputs.map((tensor) => inputFrom(tensor, batching, config.name));
  if (config.output.length === 0) {
    completed.output = outputs.map((tensor) => outputFrom(tensor, batching, config.name));
  }
  return completed;
}

/** Why tensors cannot be merged along their first dimension; undefined when they can. */
function obstacleToBatching(graph: Graph): string | undefined {
  if (graph.inputs.length === 0) return 'it has no inputs';
  for (const [kind, tensors] of [['input', graph.inputs] as const, ['output', graph.outputs] as const]) {
    for (const tensor of tensors) {
      const first = tensor.shape[0];
      if (first === undefined) return `${kind} "${tensor.name}" has no dimensions`;
      if (first !== -1) return `dimension 0 of ${kind} "${tensor.name}" is fixed to ${first}`;
    }
  }
  return undefined;
}

/** Triton keeps the tensors of a graph in a map sorted by name, which clients see in metadata. */
function byName(tensors: readonly GraphTensor[], hidden: ReadonlySet<string>): GraphTensor[] {
  return tensors
    .filter(({ name }) => !hidden.has(name))
    .sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
}

function inputFrom(tensor: GraphTensor, batching: boolean, model: string) {
  return create(ModelInputSchema, {
    name: tensor.name,
    dataType: dataTypeOf(tensor, 'input', model),
    ...shapeFrom(tensor, batching),
  });
}

function outputFrom(tensor: GraphTensor, batching: boolean, model: string) {
  return create(ModelOutputSchema, {
    name: tensor.name,
    dataType: dataTypeOf(tensor, 'output', model),
    ...shapeFrom(tensor, batching),
  });
}

/** A config has no empty dims: a scalar is one element that is reshaped to none. */
function shapeFrom(tensor: GraphTensor, batching: boolean) {
  const dims = (batching ? tensor.shape.slice(1) : tensor.shape).map(BigInt);
  return dims.length > 0 ? { dims } : { dims: [1n], reshape: create(ModelTensorReshapeSchema) };
}

function dataTypeOf(tensor: GraphTensor, kind: 'input' | 'output', model: string): DataType {
  if (tensor.datatype === undefined) {
    const fix = kind === 'output' ? '; list the outputs to serve in config.pbtxt, without this one' : '';
    const what = `${kind} "${tensor.name}" is of type ${tensor.typeName}, which the protocol cannot carry`;
    throw new InferError('INVALID_ARGUMENT', `model "${model}": ${what}${fix}`);
  }
  return configTypeOf(tensor.datatype) as DataType; // the table of datatypes holds the enum's own numbers
}
