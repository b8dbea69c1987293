import type { ModelConfig, ModelInput, ModelOutput } from '../proto/generated/model_config_pb.ts';
import { InferError } from '../errors.ts';
import { datatypeOfConfig } from '../tensor/datatype.ts';
import { generatedInputs } from './padding-settings.ts';
import type { ModelFiles, ReadyModel, TensorSpec } from './ready-model.ts';

export interface ReadyModelParts {
  /** Completed, normalised and without problems. */
  readonly config: ModelConfig;
  readonly version: string;
  /** All ready versions of the model, ascending. */
  readonly versions: readonly string[];
  /** By `labelsKey` of each output that has some. */
  readonly labels: ReadonlyMap<string, readonly string[]>;
  readonly files: ModelFiles;
  readonly identity?: string | undefined;
}

/** What the rest of the program knows of a model version that can be called. */
export function createReadyModel(parts: ReadyModelParts): ReadyModel {
  const { config, version, versions, labels, files, identity } = parts;
  const batching = config.maxBatchSize > 0;
  const generated = generatedInputs(config);
  return {
    name: config.name,
    version,
    versions,
    platform: config.platform === '' ? config.backend : config.platform,
    maxBatchSize: config.maxBatchSize,
    inputs: config.input.map((input) => specOf(input, batching, input.optional || generated.has(input.name), [])),
    outputs: config.output.map((output) => specOf(output, batching, false, labels.get(labelsKey(output)) ?? [])),
    config,
    files,
    ...(identity !== undefined && { identity }),
  };
}

/** The label files that a config names, each once. */
export function labelFilenames(config: ModelConfig): string[] {
  return [...new Set(config.output.map((output) => output.labelFilename).filter((name) => name !== ''))];
}

/** The label file of an output. One without has the labels of a step at most, in an ensemble; no file has such a name. */
export function labelsKey({ labelFilename, name }: ModelOutput): string {
  return labelFilename === '' ? `/${name}` : labelFilename;
}

/** One label a line; an empty line is an empty label, as it holds the place of its index. */
export function parseLabels(text: string): string[] {
  const lines = text.replace(/^\uFEFF/, '').split(/\r?\n/);
  if (lines.at(-1) === '') lines.pop();
  return lines;
}

function specOf(
  tensor: ModelInput | ModelOutput,
  batching: boolean,
  optional: boolean,
  labels: readonly string[],
): TensorSpec {
  const datatype = datatypeOfConfig(tensor.dataType);
  if (datatype === undefined) throw new InferError('INTERNAL', `tensor "${tensor.name}" has no data type`);
  const shape = shapeOf(tensor.dims, batching);
  const modelShape = tensor.reshape ? shapeOf(tensor.reshape.shape, batching) : shape;
  return { name: tensor.name, datatype, shape, modelShape, optional, labels };
}

function shapeOf(dims: readonly bigint[], batching: boolean): number[] {
  const shape = dims.map(Number);
  return batching ? [-1, ...shape] : shape;
}
