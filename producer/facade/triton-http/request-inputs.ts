import { InferError } from '../../../shared/errors.ts';
import type { ReadyModel } from '../../../shared/model/ready-model.ts';
import { assertByteLength, checkedElementCount } from '../../../shared/tensor/byte-length.ts';
import { byteSizeOf, type Datatype } from '../../../shared/tensor/datatype.ts';
import { decodeJsonData } from '../../../shared/tensor/json-decode.ts';
import type { Pieces } from '../../../shared/tensor/pieces.ts';
import { createTensor, type Tensor } from '../../../shared/tensor/tensor.ts';
import { shownText, shownValue } from '../../../shared/tensor/text.ts';
import type { SharedMemory } from '../../service/shared-memory.ts';
import { asDatatype } from '../triton/as-datatype.ts';
import { readRegionRange } from '../triton/region-parameters.ts';
import { readRegionTensor } from '../triton/region-tensors.ts';
import type { JsonDocument } from './json-document.ts';
import { asArray, asCount, asName, asObject } from './json-fields.ts';

const MAX_INPUTS = 1024;

const NONE: Record<string, unknown> = Object.freeze({});

/**
 * The inputs of a request: JSON data, views of the bytes that follow the JSON, in the order of `inputs`, or copies out of
 * shared memory.
 * @param body the whole body; its first `jsonLength` bytes are `document`
 * @throws InferError INVALID_ARGUMENT; with shared memory also NOT_FOUND and RESOURCE_EXHAUSTED.
 */
export function decodeInputs(
  document: JsonDocument,
  body: Buffer | Pieces,
  jsonLength: number,
  model: ReadyModel,
  memory: SharedMemory,
): Tensor[] {
  const list = asArray('inputs', document.root.inputs, MAX_INPUTS);
  if (list.length === 0) throw invalid('inputs is empty');
  const tensors: Tensor[] = [];
  let offset = jsonLength;
  let regionBytes = 0;
  for (let i = 0; i < list.length; i++) {
    const input = asObject(`inputs[${i}]`, list[i]);
    const name = asName(`inputs[${i}]: name`, input.name);
    const where = `input ${shownText(name)}`;
    const shape = asShape(where, input.shape);
    const datatype = asDatatype(where, name, input.datatype, model);
    const count = checkedElementCount(where, shape);
    const parameters = input.parameters === undefined ? NONE : asObject(`${where}: parameters`, input.parameters);
    const size = decodeBinarySize(where, parameters);
    const range = readRegionRange(where, parameters);
    assertOneForm(where, input.data !== undefined, size !== undefined, range !== undefined);
    let data: Uint8Array | Pieces;
    if (range !== undefined) {
      data = readRegionTensor(memory, where, range, datatype, shape, count, regionBytes);
      regionBytes += range.byteLength;
    } else if (size !== undefined) {
      assertBinarySize(where, datatype, shape, count, size, body.length - offset);
      data = body.subarray(offset, offset + size);
      offset += size;
    } else {
      data = decodeJsonData(where, datatype, count, input.data, () => exactData(document, i), document.bareFloats);
    }
    tensors.push(createTensor(name, datatype, shape, data));
  }
  if (offset < body.length) {
    throw invalid(
      `unexpected additional input data: ${body.length - offset} bytes follow the last input (the body has ${body.length} bytes: ${jsonLength} of JSON, ${offset - jsonLength} announced by binary_data_size)`,
    );
  }
  return tensors;
}

function asShape(where: string, value: unknown): readonly number[] {
  if (!Array.isArray(value)) {
    throw invalid(`${where}: shape must be an array of integers, got ${shownValue(value)}`);
  }
  return value as readonly number[]; // checkedElementCount looks at every dimension
}

/** `binary_data_size`; undefined when the data is not behind the JSON. */
function decodeBinarySize(where: string, parameters: Record<string, unknown>): number | undefined {
  if (!Object.hasOwn(parameters, 'binary_data_size')) return undefined;
  return asCount(`${where}: binary_data_size`, parameters.binary_data_size);
}

function assertOneForm(where: string, json: boolean, binary: boolean, region: boolean): void {
  if (Number(json) + Number(binary) + Number(region) === 1) return;
  if (!json && !binary) {
    throw invalid(`${where}: neither data nor binary_data_size nor shared_memory_region is given`);
  }
  const [first, second] = json
    ? ['data', binary ? 'binary_data_size' : 'shared_memory_region']
    : ['binary_data_size', 'shared_memory_region'];
  throw invalid(`${where}: both ${first} and ${second} are given`);
}

function assertBinarySize(
  where: string,
  datatype: Datatype,
  shape: readonly number[],
  count: number,
  size: number,
  bytesLeft: number,
): void {
  if (byteSizeOf(datatype) > 0) {
    assertByteLength(where, datatype, shape, count, size);
    if (size > bytesLeft) assertByteLength(where, datatype, shape, count, bytesLeft);
  } else if (size > bytesLeft) {
    throw invalid(`${where}: expected ${size} bytes (binary_data_size), got ${bytesLeft}: the body ends before`);
  }
}

function exactData(document: JsonDocument, index: number): unknown {
  const inputs = document.exact().inputs;
  return Array.isArray(inputs) ? asObject(`inputs[${index}]`, inputs[index]).data : undefined;
}

function invalid(message: string): InferError {
  return new InferError('INVALID_ARGUMENT', message);
}
