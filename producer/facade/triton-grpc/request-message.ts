import { fromBinary } from '@bufbuild/protobuf';
import { BinaryReader, WireType } from '@bufbuild/protobuf/wire';
import { InferError } from '../../../shared/errors.ts';
import { type InferParameter, InferParameterSchema } from '../../../shared/proto/generated/grpc_service_pb.ts';

/** Bounds for what a small message can blow up to: an empty entry takes two bytes on the wire and a hundred in memory. */
const MAX_TENSORS = 1024;
const MAX_PARAMETERS = 256;
/** More than any shape that is accepted; how many are accepted is not decided here. */
const MAX_DIMENSIONS = 256;

export type ParameterChoice = InferParameter['parameterChoice'];
export type WireParameters = ReadonlyMap<string, ParameterChoice>;
type ParameterMap = Map<string, ParameterChoice>;

const NO_WIRE_PARAMETERS: WireParameters = new Map();

/** A ModelInferRequest as it came: nothing checked but its form. All bytes are views of the message. */
export interface RequestMessage {
  readonly modelName: string;
  readonly modelVersion: string;
  readonly id: string;
  readonly parameters: WireParameters;
  readonly inputs: readonly InputMessage[];
  readonly outputs: readonly OutputMessage[];
  readonly rawContents: readonly Uint8Array[];
}

export interface InputMessage {
  readonly name: string;
  readonly datatype: string;
  /** Beyond 2^53 rounded, which is beyond what is accepted too. */
  readonly shape: readonly number[];
  readonly parameters: WireParameters;
  /** An InferTensorContents that has not been read yet; undefined when the input has none. */
  readonly contents: Uint8Array | undefined;
}

export interface OutputMessage {
  readonly name: string;
  readonly parameters: WireParameters;
}

/**
 * Reads a ModelInferRequest. By hand, because the general reader makes an object of every element of typed contents: a
 * message at the size limit would take several times the memory of the machine.
 * @throws InferError INVALID_ARGUMENT for bytes that are no such message, and for too many entries of a kind.
 */
export function parseRequestMessage(bytes: Uint8Array): RequestMessage {
  try {
    return readRequest(new BinaryReader(bytes));
  } catch (error) {
    if (error instanceof InferError) throw error;
    const problem = error instanceof Error ? error.message : 'unreadable';
    throw new InferError('INVALID_ARGUMENT', `the message is no ModelInferRequest: ${problem}`, { cause: error });
  }
}

function readRequest(reader: BinaryReader): RequestMessage {
  let modelName = '';
  let modelVersion = '';
  let id = '';
  let parameters: ParameterMap | undefined;
  const inputs: InputMessage[] = [];
  const outputs: OutputMessage[] = [];
  const rawContents: Uint8Array[] = [];
  while (reader.pos < reader.len) {
    const [field, wireType] = reader.tag();
    if (wireType !== WireType.LengthDelimited || field > 7) {
      reader.skip(wireType, field);
    } else if (field === 1) modelName = reader.string(true);
    else if (field === 2) modelVersion = reader.string(true);
    else if (field === 3) id = reader.string(true);
    else if (field === 4) parameters = readParameter(reader, parameters);
    else if (field === 5) addEntry('inputs', inputs, readInput(reader));
    else if (field === 6) addEntry('outputs', outputs, readOutput(reader));
    else addEntry('raw_input_contents', rawContents, reader.bytes());
  }
  return { modelName, modelVersion, id, parameters: parameters ?? NO_WIRE_PARAMETERS, inputs, outputs, rawContents };
}

function readInput(reader: BinaryReader): InputMessage {
  const end = endOfField(reader);
  let name = '';
  let datatype = '';
  let parameters: ParameterMap | undefined;
  let contents: Uint8Array | undefined;
  const shape: number[] = [];
  while (reader.pos < end) {
    const [field, wireType] = reader.tag();
    if (field === 3) readShape(reader, wireType, shape);
    else if (wireType !== WireType.LengthDelimited || field > 5) reader.skip(wireType, field);
    else if (field === 1) name = reader.string(true);
    else if (field === 2) datatype = reader.string(true);
    else if (field === 4) parameters = readParameter(reader, parameters);
    else if (contents === undefined) contents = reader.bytes();
    else throw new Error('an input has contents twice');
  }
  assertAt(reader, end);
  return { name, datatype, shape, parameters: parameters ?? NO_WIRE_PARAMETERS, contents };
}

function readShape(reader: BinaryReader, wireType: WireType, shape: number[]): void {
  if (wireType === WireType.Varint) {
    addDimension(shape, reader.int64());
    return;
  }
  if (wireType !== WireType.LengthDelimited) throw new Error(`shape has wire type ${wireType}`);
  const end = endOfField(reader);
  while (reader.pos < end) {
    addDimension(shape, reader.int64());
  }
  assertAt(reader, end);
}

function addDimension(shape: number[], dimension: bigint | string): void {
  if (shape.length === MAX_DIMENSIONS) {
    throw new InferError('INVALID_ARGUMENT', `a shape has more than ${MAX_DIMENSIONS} dimensions`);
  }
  shape.push(Number(dimension));
}

function readOutput(reader: BinaryReader): OutputMessage {
  const end = endOfField(reader);
  let name = '';
  let parameters: ParameterMap | undefined;
  while (reader.pos < end) {
    const [field, wireType] = reader.tag();
    if (wireType !== WireType.LengthDelimited || field > 2) reader.skip(wireType, field);
    else if (field === 1) name = reader.string(true);
    else parameters = readParameter(reader, parameters);
  }
  assertAt(reader, end);
  return { name, parameters: parameters ?? NO_WIRE_PARAMETERS };
}

/** One entry of a `map<string, InferParameter>`; a key that comes again replaces the one before. */
function readParameter(reader: BinaryReader, known: ParameterMap | undefined): ParameterMap {
  const parameters = known ?? new Map<string, ParameterChoice>();
  const end = endOfField(reader);
  let key = '';
  let value: ParameterChoice = { case: undefined };
  while (reader.pos < end) {
    const [field, wireType] = reader.tag();
    if (wireType !== WireType.LengthDelimited || field > 2) reader.skip(wireType, field);
    else if (field === 1) key = reader.string(true);
    else value = fromBinary(InferParameterSchema, reader.bytes(), { readUnknownFields: false }).parameterChoice;
  }
  assertAt(reader, end);
  if (parameters.size === MAX_PARAMETERS && !parameters.has(key)) {
    throw new InferError('INVALID_ARGUMENT', `more than ${MAX_PARAMETERS} parameters are given in one place`);
  }
  return parameters.set(key, value);
}

function addEntry<T>(what: string, list: T[], entry: T): void {
  if (list.length === MAX_TENSORS) {
    throw new InferError('INVALID_ARGUMENT', `${what} has more than ${MAX_TENSORS} entries`);
  }
  list.push(entry);
}

/** Where a length-delimited field ends whose length comes next. */
function endOfField(reader: BinaryReader): number {
  const length = reader.uint32();
  const end = reader.pos + length;
  if (end > reader.len) throw new RangeError('premature EOF');
  return end;
}

/** A field inside a message must not reach beyond that message. */
function assertAt(reader: BinaryReader, end: number): void {
  if (reader.pos !== end) throw new RangeError('a field is longer than the message that it is part of');
}
