import { InferError } from '../../../shared/errors.ts';
import type { ReadyModel } from '../../../shared/model/ready-model.ts';
import { isJsonObject, parseJsonObject, type JsonObject } from '../json-file.ts';

/** How Magika turns a file into a row of numbers: plain data. */
export interface FilePipeline {
  readonly input: string;
  readonly batched: boolean;
  /** Bytes taken from the beginning and from the end of the file. */
  readonly beginSize: number;
  readonly endSize: number;
  /** Bytes at each end among which white space is skipped. */
  readonly blockSize: number;
  readonly padding: number;
  /** Smaller files are not given to the model. */
  readonly minSize: number;
}

const FILE = 'magika_config.json';

/** @throws InferError INVALID_ARGUMENT for a Magika model of another kind than the ones with two ends. */
export function parseFilePipeline(text: string, model: ReadyModel): FilePipeline {
  const config = parseJsonObject(text, FILE);
  if (config['mid_size'] !== 0 || config['use_inputs_at_offsets'] === true) {
    throw wrong('only models without mid_size and use_inputs_at_offsets are supported');
  }
  const pipeline: FilePipeline = {
    input: '',
    batched: false,
    beginSize: size(config, 'beg_size'),
    endSize: size(config, 'end_size'),
    blockSize: size(config, 'block_size'),
    padding: size(config, 'padding_token'),
    minSize: size(config, 'min_file_size_for_dl'),
  };
  const length = pipeline.beginSize + pipeline.endSize;
  const [input] = model.inputs;
  if (
    input?.datatype !== 'INT32' ||
    input.shape.at(-1) !== length ||
    input.shape.length > 2 ||
    model.inputs.length > 1
  ) {
    throw wrong(`model "${model.name}" must have one input INT32 of ${length} numbers per file`);
  }
  return { ...pipeline, input: input.name, batched: input.shape.length === 2 };
}

/** The names that Magika changes in its answers, by the model's own label. */
export function parseRenamedLabels(text: string): ReadonlyMap<string, string> {
  const map = parseJsonObject(text, FILE)['overwrite_map'];
  const entries = isJsonObject(map) ? Object.entries(map) : [];
  return new Map(entries.filter((entry): entry is [string, string] => typeof entry[1] === 'string'));
}

function size(config: JsonObject, key: string): number {
  const value = config[key];
  if (typeof value === 'number' && Number.isInteger(value) && value > 0 && value <= 1 << 20) return value;
  throw wrong(`${key} must be a whole number above 0`);
}

function wrong(what: string): InferError {
  return new InferError('INVALID_ARGUMENT', `${FILE}: ${what}`);
}
