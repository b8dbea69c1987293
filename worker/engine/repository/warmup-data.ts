import { open, realpath } from 'node:fs/promises';
import { join, sep } from 'node:path';
import { InferError } from '../../../shared/errors.ts';
import { warmupRows } from '../../../shared/model/warmup-problems.ts';
import type { ModelWarmup, ModelWarmup_Input } from '../../../shared/proto/generated/model_config_pb.ts';
import { assertTensorData } from '../../../shared/tensor/byte-length.ts';
import { byteSizeOf, type Datatype } from '../../../shared/tensor/datatype.ts';
import { elementCount, type Tensor } from '../../../shared/tensor/tensor.ts';
import { type ModelPlan, reshape, type TensorPlan } from '../batch/model-plan.ts';
import { randomRow } from './random-row.ts';

const FOLDER = 'warmup';

/** A longer file is no sample. */
const MAX_FILE_BYTES = 2 ** 30;

export interface WarmupModel {
  /** Of a run: its inputs are all that the model takes, also those that clients do not see. */
  readonly plan: ModelPlan;
  /** The model's folder. */
  readonly path: string;
}

/**
 * The inputs of one run of a warm-up entry that `findWarmupProblems` found no problem in: a row as the entry describes it,
 * as often as its batch size says. Inputs that it leaves out, which only the server fills, are zeros.
 * @throws InferError INVALID_ARGUMENT, with the input and the file, for a file that is not there or of the wrong size.
 */
export async function readWarmupInputs(entry: ModelWarmup, { plan, path }: WarmupModel): Promise<Tensor[]> {
  // A model that turned out to be unable to batch takes fewer rows than its config says.
  const rows = Math.min(warmupRows(entry), plan.maxRows);
  const inputs = new Map(Object.entries(entry.inputs));
  const tensors: Tensor[] = [];
  for (const planned of plan.inputs) {
    const { name, datatype, optional } = planned.spec;
    const input = inputs.get(name);
    if (!input && optional) continue;
    tensors.push(await readInput({ name, datatype, shape: shapeOf(planned, input, plan.batched) }, input, path, rows));
  }
  return tensors;
}

interface Row {
  readonly name: string;
  readonly datatype: Datatype;
  /** The model's own, with one row where it batches. */
  readonly shape: readonly number[];
}

/** The dims of an entry may be those that clients send or, where the config reshapes, the model's own. */
function shapeOf({ spec, reshaped }: TensorPlan, input: ModelWarmup_Input | undefined, batched: boolean): number[] {
  if (!input) return spec.modelShape.map((dim) => Math.max(1, dim)); // -1 stands for 1
  const dims = input.dims.map(Number);
  const shape = batched ? [1, ...dims] : dims;
  const asSent = shape.length === spec.shape.length && spec.shape.every((dim, i) => dim === -1 || dim === shape[i]);
  return reshaped && asSent ? reshape(shape, spec.shape, spec.modelShape) : shape;
}

async function readInput(
  row: Row,
  input: ModelWarmup_Input | undefined,
  modelPath: string,
  rows: number,
): Promise<Tensor> {
  const data = await rowData(row, input, modelPath);
  const all = new Uint8Array(data.byteLength * rows);
  for (let i = 0; i < rows; i += 1) all.set(data, i * data.byteLength);
  const shape = rows > 1 ? [rows, ...row.shape.slice(1)] : row.shape;
  return { name: row.name, datatype: row.datatype, shape, data: all };
}

async function rowData(row: Row, input: ModelWarmup_Input | undefined, modelPath: string): Promise<Uint8Array> {
  const elements = elementCount(row.shape);
  switch (input?.inputDataType.case) {
    case 'inputDataFile':
      return await readDataFile(row, input.inputDataType.value, modelPath);
    case 'randomData':
      return randomRow(row.datatype, elements);
    default:
      return new Uint8Array(elements * (byteSizeOf(row.datatype) || 4)); // zeros are empty texts, too
  }
}

async function readDataFile(row: Row, fileName: string, modelPath: string): Promise<Uint8Array> {
  const where = `input "${row.name}": ${FOLDER}/${fileName}`;
  const data = await readBounded(modelPath, fileName).catch((cause: unknown) => {
    const expected = `expected a file of at most ${MAX_FILE_BYTES} bytes in the model's folder`;
    throw new InferError('INVALID_ARGUMENT', `${where} cannot be read; ${expected}`, { cause });
  });
  assertTensorData(where, { ...row, data });
  return data;
}

/** Links may lead to other files of the model's folder, and nowhere else. */
async function readBounded(modelPath: string, fileName: string): Promise<Uint8Array> {
  const root = await realpath(modelPath);
  const path = await realpath(join(root, FOLDER, fileName));
  if (!path.startsWith(root + sep)) throw new Error('outside of the folder');
  const file = await open(path);
  try {
    const stats = await file.stat();
    if (!stats.isFile() || stats.size > MAX_FILE_BYTES) throw new Error(`no file, or of ${stats.size} bytes`);
    return await file.readFile();
  } finally {
    await file.close();
  }
}
