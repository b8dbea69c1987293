import type { ModelConfig, ModelInput, ModelWarmup, ModelWarmup_Input } from '../proto/generated/model_config_pb.ts';
import { byteSizeOf, type Datatype, datatypeOfConfig } from '../tensor/datatype.ts';
import { formatDims } from './dims.ts';
import { leadsOutside } from './inside-folder.ts';
import { CONTROL_DIMS, controlsOf, sequenceBatchingOf, statesOf } from './sequence-tensors.ts';

/** More runs of one entry warm nothing. */
const MAX_COUNT = 100_000;

/** For one input with all its rows. */
const MAX_BYTES = 2 ** 30;

/** An input that a warm-up entry may or must bring. */
interface WarmInput {
  readonly datatype: Datatype;
  /** Shapes that the dims may have, without the batch dimension: the client's, and the model's own where it differs. */
  readonly shapes: readonly (readonly number[])[];
  readonly required: boolean;
}

/** How messages call an entry of `model_warmup`. */
export function warmupLabel({ name }: ModelWarmup, index: number): string {
  return name === '' ? `model_warmup ${index}` : `model_warmup "${name}"`;
}

/** Rows of one run. As Triton's config has it, nothing written means one. */
export function warmupRows({ batchSize }: ModelWarmup): number {
  return Math.max(1, batchSize);
}

/** What is wrong with the warm-up of a completed config. Files are looked at when they are read. */
export function findWarmupProblems(config: ModelConfig): string[] {
  if (config.modelWarmup.length === 0) return [];
  const inputs = warmInputsOf(config);
  return config.modelWarmup.flatMap((entry, index) => {
    const where = warmupLabel(entry, index);
    return problemsOf(entry, inputs, config.maxBatchSize).map((problem) => `${where}: ${problem}`);
  });
}

function problemsOf(entry: ModelWarmup, inputs: ReadonlyMap<string, WarmInput>, maxBatchSize: number): string[] {
  const problems: string[] = [];
  const rows = warmupRows(entry);
  if (maxBatchSize > 0 && rows > maxBatchSize) {
    problems.push(`batch_size: expected up to max_batch_size (${maxBatchSize}), got ${rows}`);
  }
  if (maxBatchSize === 0 && rows > 1) {
    problems.push(`batch_size: expected 1, as the model does not batch (max_batch_size 0), got ${rows}`);
  }
  if (entry.count > MAX_COUNT) problems.push(`count: expected up to ${MAX_COUNT}, got ${entry.count}`);
  for (const [name, input] of Object.entries(entry.inputs)) {
    const expected = inputs.get(name);
    if (expected) problems.push(...inputProblems(input, expected, rows).map((text) => `input "${name}": ${text}`));
    else problems.push(`input "${name}" is not an input of the model; it has ${[...inputs.keys()].join(', ')}`);
  }
  for (const [name, { required }] of inputs) {
    if (required && !Object.hasOwn(entry.inputs, name)) problems.push(`input "${name}" is missing`);
  }
  return problems;
}

function inputProblems(input: ModelWarmup_Input, expected: WarmInput, rows: number): string[] {
  const problems: string[] = [];
  const datatype = datatypeOfConfig(input.dataType);
  if (datatype !== expected.datatype) {
    problems.push(`expected data_type ${typeName(expected.datatype)}, got ${typeName(datatype ?? 'INVALID')}`);
  }
  const dims = input.dims.map(Number);
  if (!expected.shapes.some((shape) => fits(dims, shape))) {
    const shapes = expected.shapes.map(formatDims).join(' or ');
    problems.push(`expected dims ${shapes} with a number for each dimension, got ${formatDims(dims)}`);
  } else if (byteLength(dims, expected.datatype, rows) > MAX_BYTES) {
    problems.push(`dims ${formatDims(dims)} with ${rows} rows are more than ${MAX_BYTES} bytes`);
  }
  const data = dataProblem(input, expected.datatype);
  if (data !== undefined) problems.push(data);
  return problems;
}

function dataProblem({ inputDataType }: ModelWarmup_Input, datatype: Datatype): string | undefined {
  switch (inputDataType.case) {
    case 'zeroData':
      return inputDataType.value ? undefined : 'zero_data: expected true, got false';
    case 'randomData':
      if (!inputDataType.value) return 'random_data: expected true, got false';
      return datatype === 'BYTES' ? 'random_data is not for TYPE_STRING: take zero_data or input_data_file' : undefined;
    case 'inputDataFile': {
      const name = inputDataType.value;
      if (name !== '' && !leadsOutside(name)) return undefined;
      return `input_data_file: expected the name of a file in the model's folder "warmup", got "${name}"`;
    }
    case undefined:
      return 'expected one of zero_data, random_data, input_data_file';
  }
}

function warmInputsOf(config: ModelConfig): Map<string, WarmInput> {
  const inputs = new Map<string, WarmInput>();
  for (const input of config.input) {
    const datatype = datatypeOfConfig(input.dataType);
    if (datatype) inputs.set(input.name, { datatype, shapes: shapesOf(input), required: !input.optional });
  }
  const sequences = sequenceBatchingOf(config);
  if (!sequences) return inputs;
  for (const { name, datatype } of controlsOf(sequences)) {
    inputs.set(name, { datatype, shapes: [CONTROL_DIMS], required: false });
  }
  for (const { inputName, datatype, dims } of statesOf(sequences)) {
    inputs.set(inputName, { datatype, shapes: [dims], required: false });
  }
  return inputs;
}

function shapesOf({ dims, reshape }: ModelInput): number[][] {
  const shapes = [dims.map(Number)];
  if (reshape) shapes.push(reshape.shape.map(Number));
  return shapes;
}

function fits(dims: readonly number[], shape: readonly number[]): boolean {
  if (dims.length !== shape.length) return false;
  return dims.every((dim, index) => dim >= 1 && (shape[index] === -1 || shape[index] === dim));
}

/** At least: texts take four bytes each and their own. */
function byteLength(dims: readonly number[], datatype: Datatype, rows: number): number {
  return dims.reduce((product, dim) => product * dim, rows * (byteSizeOf(datatype) || 4));
}

function typeName(datatype: string): string {
  return datatype === 'BYTES' ? 'TYPE_STRING' : `TYPE_${datatype}`;
}
