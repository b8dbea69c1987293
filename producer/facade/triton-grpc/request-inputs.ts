import { InferError } from '../../../shared/errors.ts';
import type { ReadyModel } from '../../../shared/model/ready-model.ts';
import { checkedElementCount } from '../../../shared/tensor/byte-length.ts';
import type { Pieces } from '../../../shared/tensor/pieces.ts';
import { createTensor, type Tensor } from '../../../shared/tensor/tensor.ts';
import { shownText, shownValue } from '../../../shared/tensor/text.ts';
import type { SharedMemory } from '../../service/shared-memory.ts';
import { asDatatype } from '../triton/as-datatype.ts';
import { readRegionTensor } from '../triton/region-tensors.ts';
import type { RequestMessage } from './request-message.ts';
import { decodeTypedContents } from './typed-contents.ts';
import { regionOf } from './wire-parameter.ts';

const MAX_NAME_LENGTH = 1024;
const NO_BYTES = new Uint8Array();

/**
 * The inputs of a request: views of the message for raw contents, what typed contents hold, or copies of shared memory.
 * Whether they fit the model is checked by whoever runs them.
 * @param maxBytes the most that the typed contents of one input may take
 * @throws InferError INVALID_ARGUMENT, or what reading shared memory throws.
 */
export function decodeInputs(
  message: RequestMessage,
  model: ReadyModel,
  sharedMemory: SharedMemory,
  maxBytes: number,
): Tensor[] {
  const { inputs, rawContents } = message;
  if (inputs.length === 0) throw invalid('inputs is empty');
  const tensors: Tensor[] = [];
  let rawTaken = 0;
  let regionBytes = 0;
  for (const input of inputs) {
    const name = checkedName(input.name);
    const where = `input ${shownText(name)}`;
    const datatype = asDatatype(where, name, input.datatype, model);
    const count = checkedElementCount(where, input.shape);
    const region = regionOf(where, input.parameters);
    let data: Uint8Array | Pieces;
    if (region !== undefined) {
      if (input.contents !== undefined) throw invalid(`${where}: both contents and shared_memory_region are given`);
      data = readRegionTensor(sharedMemory, where, region, datatype, input.shape, count, regionBytes);
      regionBytes += region.byteLength;
    } else if (input.contents !== undefined) {
      if (rawContents.length > 0) {
        throw invalid(
          `${where}: contents are given, and so are raw_input_contents; a request can have one of them only`,
        );
      }
      data = decodeTypedContents(where, datatype, count, input.contents, maxBytes);
    } else {
      data = rawContents[rawTaken] ?? missingContents(where, count, rawContents.length);
      rawTaken++;
    }
    tensors.push(createTensor(name, datatype, input.shape, data));
  }
  if (rawTaken < rawContents.length) {
    throw invalid(
      `unexpected additional input data: raw_input_contents has ${rawContents.length} entries, but ${rawTaken} inputs are raw`,
    );
  }
  return tensors;
}

function checkedName(name: string): string {
  if (name !== '' && name.length <= MAX_NAME_LENGTH) return name;
  throw invalid(`the name of an input must have 1 to ${MAX_NAME_LENGTH} characters, got ${shownValue(name)}`);
}

/** Empty tensors need no contents: a list without elements is not sent at all. */
function missingContents(where: string, count: number, rawEntries: number): Uint8Array {
  if (rawEntries > 0) {
    throw invalid(`${where}: raw_input_contents has no entry left for it, got ${rawEntries} in all`);
  }
  if (count === 0) return NO_BYTES;
  throw invalid(`${where}: neither contents nor raw_input_contents nor shared_memory_region is given`);
}

function invalid(message: string): InferError {
  return new InferError('INVALID_ARGUMENT', message);
}
