import { readFile, realpath } from 'node:fs/promises';
import { join, sep } from 'node:path';
import { InferError } from '../../../shared/errors.ts';
import { sequenceBatchingOf, type StateTensor, statesOf } from '../../../shared/model/sequence-tensors.ts';
import type { ModelConfig } from '../../../shared/proto/generated/model_config_pb.ts';
import { assertTensorData } from '../../../shared/tensor/byte-length.ts';
import { byteSizeOf } from '../../../shared/tensor/datatype.ts';
import { elementCount, type Tensor } from '../../../shared/tensor/tensor.ts';

const FOLDER = 'initial_state';
/** The states of all live sequences lie in memory, so one of this size is a mistake. */
const MAX_STATE_BYTES = 256 * 1024 * 1024;

/**
 * What the states of a model are when a sequence starts, in the order of the config: zeros, or the content of a file in the
 * model's folder `initial_state`.
 * @throws InferError INVALID_ARGUMENT for a file that is missing or has another size, and for states too large to keep.
 */
export async function readInitialStates(config: ModelConfig, modelPath: string): Promise<Tensor[]> {
  const batching = sequenceBatchingOf(config);
  const tensors: Tensor[] = [];
  for (const state of batching ? statesOf(batching) : []) {
    tensors.push(await readInitialState(config, modelPath, state));
  }
  return tensors;
}

async function readInitialState(config: ModelConfig, modelPath: string, state: StateTensor): Promise<Tensor> {
  const { inputName: name, datatype, initial } = state;
  const dims = initial ? initial.dims.map(Number) : state.dims.map((dim) => (dim === -1 ? 1 : dim)); // as in Triton
  const shape = config.maxBatchSize > 0 ? [1, ...dims] : dims;
  const count = elementCount(dims);
  const where = `model "${config.name}": sequence_batching: state "${name}"`;
  if (count * Math.max(4, byteSizeOf(datatype)) > MAX_STATE_BYTES) {
    throw new InferError('INVALID_ARGUMENT', `${where} has ${count} elements, more than ${MAX_STATE_BYTES} bytes`);
  }
  if (initial?.stateData.case !== 'dataFile') return { name, datatype, shape, data: zeros(datatype, count) };
  const tensor = { name, datatype, shape, data: await readData(modelPath, initial.stateData.value, where) };
  assertTensorData(`${where}: data_file "${initial.stateData.value}"`, tensor);
  return tensor;
}

async function readData(modelPath: string, filename: string, where: string): Promise<Uint8Array> {
  try {
    const root = await realpath(join(modelPath, FOLDER));
    const path = await realpath(join(root, filename));
    if (!path.startsWith(root + sep)) throw new Error('outside of the folder');
    return new Uint8Array(await readFile(path));
  } catch (error) {
    const what = `data_file "${filename}" cannot be read; expected a file in the model's folder ${FOLDER}`;
    throw new InferError('INVALID_ARGUMENT', `${where}: ${what}`, { cause: error });
  }
}

/** All elements 0, or empty texts: an empty element of BYTES is the four bytes of its length. */
export function zeros(datatype: Tensor['datatype'], count: number): Uint8Array {
  return new Uint8Array(count * (datatype === 'BYTES' ? 4 : byteSizeOf(datatype)));
}
