import { InferError } from '../errors.ts';
import { byteSizeOf, type Datatype, isDatatype } from '../tensor/datatype.ts';
import { byteLengthOf, type PixelEncoding, type Tensor } from '../tensor/tensor.ts';
import { isCount, isRecord } from './record.ts';

/** What is said about a tensor while its bytes travel elsewhere. */
export interface TensorHeader {
  readonly name: string;
  readonly datatype: Datatype;
  readonly shape: readonly number[];
  readonly byteLength: number;
  readonly pixels?: PixelEncoding;
}

const MAX_NAME_LENGTH = 1024;
const MAX_RANK = 64;
const MAX_CHANNELS = 64;

export function encodeTensorHeader(tensor: Tensor): TensorHeader {
  const { name, datatype, shape, pixels } = tensor;
  return { name, datatype, shape, byteLength: byteLengthOf(tensor), ...(pixels && { pixels }) };
}

/**
 * Checks that name, datatype, shape and byte length are well formed and agree with each other.
 * @throws InferError INVALID_ARGUMENT
 */
export function decodeTensorHeader(wire: unknown): TensorHeader {
  if (!isRecord(wire)) throw invalid('a tensor must be an object');
  const { name, datatype, shape, byteLength } = wire;
  if (typeof name !== 'string' || name.length > MAX_NAME_LENGTH) {
    throw invalid(`a tensor name must be a text of at most ${MAX_NAME_LENGTH} characters`);
  }
  if (!isDatatype(datatype)) throw invalid(`tensor ${JSON.stringify(name)} has an unknown datatype`);
  if (!Array.isArray(shape) || shape.length > MAX_RANK || !shape.every(isCount)) {
    throw invalid(`the shape of tensor ${JSON.stringify(name)} must be at most ${MAX_RANK} non-negative integers`);
  }
  if (!isCount(byteLength)) throw invalid(`tensor ${JSON.stringify(name)} has no byte length`);
  const pixels = wire.pixels === undefined ? undefined : decodePixels(name, datatype, wire.pixels);
  const header = { name, datatype, shape, byteLength, ...(pixels && { pixels }) };
  const expected = expectedBytes(header);
  if (expected !== undefined && byteLength !== expected) {
    throw invalid(
      `tensor ${JSON.stringify(name)} of shape [${shape.join(',')}] and datatype ${datatype} needs ${expected} bytes, ${byteLength} were announced`,
    );
  }
  return header;
}

/**
 * The tensor of a header and its bytes.
 * @throws InferError INVALID_ARGUMENT when the bytes do not fit the header.
 */
export function tensorOf(header: TensorHeader, data: Uint8Array): Tensor {
  if (data.byteLength !== header.byteLength) {
    throw invalid(
      `tensor ${JSON.stringify(header.name)} was announced with ${header.byteLength} bytes, ${data.byteLength} arrived`,
    );
  }
  if (header.datatype === 'BYTES') assertBytesLayout(header, data);
  const { name, datatype, shape, pixels } = header;
  return pixels ? { name, datatype, shape, data, pixels } : { name, datatype, shape, data };
}

/** Bytes that a tensor must have; undefined for BYTES, where only the data can tell. */
function expectedBytes(header: TensorHeader): number | undefined {
  if (header.datatype === 'BYTES') return undefined;
  let count = header.pixels ? 1 : byteSizeOf(header.datatype);
  for (const dim of header.shape) count *= dim;
  if (!Number.isSafeInteger(count)) {
    throw invalid(`the shape [${header.shape.join(',')}] of tensor ${JSON.stringify(header.name)} overflows`);
  }
  return count;
}

function assertBytesLayout(header: TensorHeader, data: Uint8Array): void {
  let expected = 1;
  for (const dim of header.shape) expected *= dim;
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  let at = 0;
  let count = 0;
  while (at + 4 <= data.byteLength && count <= expected) {
    at += 4 + view.getUint32(at, true);
    count += 1;
  }
  if (at !== data.byteLength || count !== expected) {
    throw invalid(
      `BYTES tensor ${JSON.stringify(header.name)} of shape [${header.shape.join(',')}] needs exactly ${expected} elements with their lengths, the data holds something else`,
    );
  }
}

function decodePixels(name: string, datatype: Datatype, wire: unknown): PixelEncoding {
  const problem = `the pixel encoding of tensor ${JSON.stringify(name)} is not valid`;
  if (datatype !== 'FP32' || !isRecord(wire)) throw invalid(problem);
  const { layout, rescale, mean, std } = wire;
  if (layout !== 'NCHW' && layout !== 'NHWC') throw invalid(problem);
  if (typeof rescale !== 'number' || !isChannels(mean) || !isChannels(std) || mean.length !== std.length) {
    throw invalid(problem);
  }
  return { layout, rescale, mean, std };
}

function isChannels(value: unknown): value is number[] {
  return (
    Array.isArray(value) &&
    value.length > 0 &&
    value.length <= MAX_CHANNELS &&
    value.every((entry) => typeof entry === 'number')
  );
}

function invalid(message: string): InferError {
  return new InferError('INVALID_ARGUMENT', message);
}
