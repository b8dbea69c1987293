import { InferError } from '../../../shared/errors.ts';
import type { ReadyModel } from '../../../shared/model/ready-model.ts';
import { assertByteLength, checkedElementCount } from '../../../shared/tensor/byte-length.ts';
import { byteSizeOf, type Datatype, isDatatype } from '../../../shared/tensor/datatype.ts';
import { decodeJsonData } from '../../../shared/tensor/json-decode.ts';
import type { Tensor } from '../../../shared/tensor/tensor.ts';
import { shownText, shownValue } from '../../../shared/tensor/text.ts';
import type { JsonDocument } from './json-document.ts';
import { asArray, asCount, asName, asObject } from './json-fields.ts';

const MAX_INPUTS = 1024;

/**
 * The inputs of a request: JSON data, or views of the bytes that follow the JSON, in the order of `inputs`.
 * @param body the whole body; its first `jsonLength` bytes are `document`
 * @throws InferError INVALID_ARGUMENT, or UNIMPLEMENTED for shared memory.
 */
export function decodeInputs(document: JsonDocument, body: Buffer, jsonLength: number, model: ReadyModel): Tensor[] {
  const list = asArray('inputs', document.root.inputs, MAX_INPUTS);
  if (list.length === 0) throw invalid('inputs is empty');
  const tensors: Tensor[] = [];
  let offset = jsonLength;
  for (let i = 0; i < list.length; i++) {
    const input = asObject(`inputs[${i}]`, list[i]);
    const name = asName(`inputs[${i}]: name`, input.name);
    const where = `input ${shownText(name)}`;
    const shape = asShape(where, input.shape);
    const datatype = asDatatype(where, name, input.datatype, model);
    const count = checkedElementCount(where, shape);
    const size = decodeBinarySize(where, input.parameters);
    let data: Uint8Array;
    if (size === undefined) {
      if (input.data === undefined) throw invalid(`${where}: neither data nor binary_data_size is given`);
      data = decodeJsonData(where, datatype, count, input.data, () => exactData(document, i));
    } else {
      if (input.data !== undefined) throw invalid(`${where}: both data and binary_data_size are given`);
      assertBinarySize(where, datatype, shape, count, size, body.length - offset);
      data = body.subarray(offset, offset + size);
      offset += size;
    }
    tensors.push({ name, datatype, shape, data });
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

function asDatatype(where: string, name: string, value: unknown, model: ReadyModel): Datatype {
  if (isDatatype(value)) return value;
  const spec = model.inputs.find((input) => input.name === name);
  const expected = spec ? `expected ${spec.datatype}` : 'expected one such as FP32, INT64 or BYTES';
  throw invalid(`model ${model.name}, ${where}: ${shownValue(value)} is no datatype, ${expected}`);
}

/** `binary_data_size`; undefined when the data is JSON. */
function decodeBinarySize(where: string, raw: unknown): number | undefined {
  if (raw === undefined) return undefined;
  const parameters = asObject(`${where}: parameters`, raw);
  assertNoSharedMemory(where, parameters);
  if (!Object.hasOwn(parameters, 'binary_data_size')) return undefined;
  return asCount(`${where}: binary_data_size`, parameters.binary_data_size);
}

/** @throws InferError UNIMPLEMENTED for the parameters of the shared memory extensions. */
export function assertNoSharedMemory(where: string, parameters: Record<string, unknown>): void {
  for (const key of ['shared_memory_region', 'shared_memory_byte_size', 'shared_memory_offset']) {
    if (Object.hasOwn(parameters, key)) {
      throw new InferError('UNIMPLEMENTED', `${where}: ${key}: shared memory is not supported`);
    }
  }
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
