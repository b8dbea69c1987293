import type { ReadyModel, TensorSpec } from '../../shared/model/ready-model.ts';
import { parseRenamedLabels } from './bytes/file-pipeline.ts';
import { isJsonObject, parseJsonObject, type JsonObject } from './json-file.ts';

/** What a model does, by the names of the Hugging Face Hub where it has one. */
export type ModelTask =
  'image-classification' | 'image-feature-extraction' | 'feature-extraction' | 'text-classification' | 'file-type';

/** What a facade needs to know to ask a model by photo, text or file, and to read its answer. */
export interface ModelProfile {
  readonly task: ModelTask;
  /** The output that the answer is read from. */
  readonly output: TensorSpec;
  /** The name of each of its numbers; empty for vectors, or where the model has no names. */
  readonly labels: readonly string[];
  /** How numbers become scores; `detect`: softmax unless they are probabilities already. */
  readonly scores: 'detect' | 'sigmoid';
  /** How vectors of tokens become the vector of a text. */
  readonly pooling: TokenPooling | undefined;
}

/** As the `modules.json` of a sentence-transformers export says. */
export interface TokenPooling {
  readonly mode: 'mean' | 'cls';
  readonly normalize: boolean;
}

/**
 * Finds out from its files what a model does; undefined when it can only be called with tensors.
 * @throws InferError INVALID_ARGUMENT for a file that is not what its name says.
 */
export async function readModelProfile(model: ReadyModel): Promise<ModelProfile | undefined> {
  const kind = kindOf(model);
  const output = model.outputs.find(({ labels }) => labels.length > 0) ?? model.outputs.find(isFloat);
  if (!kind || !output) return undefined;
  const config = parseJsonObject((await readFile(model, 'config.json')) ?? '{}', 'config.json');
  const labels = output.labels.length > 0 ? output.labels : labelsOf(config);
  const base = { output, scores: scoresOf(config), pooling: undefined };
  if (kind === 'file') {
    const renamed = parseRenamedLabels((await readFile(model, 'magika_config.json')) ?? '{}');
    return { ...base, task: 'file-type', labels: labels.map((label) => renamed.get(label) ?? label) };
  }
  const classifies = labels.length > 0 && fits(output, labels.length);
  if (kind === 'image') {
    return { ...base, task: classifies ? 'image-classification' : 'image-feature-extraction', labels };
  }
  if (classifies) return { ...base, task: 'text-classification', labels };
  return { ...base, task: 'feature-extraction', labels: [], pooling: await poolingOf(model) };
}

/** By the files beside the model and by what it takes. */
function kindOf({ files: { names }, inputs }: ReadyModel): 'image' | 'text' | 'file' | undefined {
  if (names.includes('magika_config.json')) return 'file';
  const takesTokens = inputs.some(({ name }) => name === 'input_ids');
  const takesPixels = inputs.some(({ shape }) => shape.length >= 3);
  if (names.includes('tokenizer.json') && takesTokens && !takesPixels) return 'text';
  if (names.includes('preprocessor_config.json') && takesPixels && !takesTokens) return 'image';
  return undefined;
}

function isFloat({ datatype }: TensorSpec): boolean {
  return datatype === 'FP32' || datatype === 'FP16' || datatype === 'FP64';
}

function fits(output: TensorSpec, labelCount: number): boolean {
  const last = output.shape.at(-1);
  return output.shape.length <= 2 && (last === labelCount || last === -1);
}

function labelsOf({ id2label }: JsonObject): string[] {
  const labels: string[] = [];
  if (!isJsonObject(id2label)) return labels;
  for (const [id, label] of Object.entries(id2label)) if (typeof label === 'string') labels[Number(id)] = label;
  return labels;
}

/** As the pipelines of transformers choose: several labels at once, or a single number, are no distribution. */
function scoresOf(config: JsonObject): ModelProfile['scores'] {
  const several = config['problem_type'] === 'multi_label_classification';
  return several || labelsOf(config).length === 1 ? 'sigmoid' : 'detect';
}

async function poolingOf(model: ReadyModel): Promise<TokenPooling | undefined> {
  const text = await readFile(model, '1_Pooling/config.json');
  if (text === undefined) return undefined;
  const config = parseJsonObject(text, '1_Pooling/config.json');
  const normalize = ((await readFile(model, 'modules.json')) ?? '').includes('models.Normalize');
  if (config['pooling_mode_mean_tokens'] === true) return { mode: 'mean', normalize };
  if (config['pooling_mode_cls_token'] === true) return { mode: 'cls', normalize };
  return undefined;
}

/** The text of one of the model's files; undefined when it has none of that name. */
export async function readFile({ files }: ReadyModel, name: string): Promise<string | undefined> {
  return files.names.includes(name) ? (await files.read(name)).toString('utf8') : undefined;
}
