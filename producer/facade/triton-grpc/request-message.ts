import { fromBinary } from '@bufbuild/protobuf';
import { BinaryReader, WireType } from '@bufbuild/protobuf/wire';
import { InferError } from '../../../shared/errors.ts';
import { joinedOf, Pieces } from '../../../shared/tensor/pieces.ts';
import { type InferParameter, InferParameterSchema } from '../../../shared/proto/generated/grpc_service_pb.ts';

/** Bounds for what a small message can blow up to: an empty entry takes two bytes on the wire and a hundred in memory. */
const MAX_TENSORS = 1024;
const MAX_PARAMETERS = 256;
/** More than any shape that is accepted; how many are accepted is not decided here. */
const MAX_DIMENSIONS = 256;

export type ParameterChoice = InferParameter['parameterChoice'];
export type WireParameters = ReadonlyMap<string, ParameterChoice>;

const NO_WIRE_PARAMETERS: WireParameters = new Map();

/** The number of the field `raw_input_contents`, the last one. */
const RAW_CONTENTS = 7;

/** A tag and a length. */
const MAX_HEAD_BYTES = 10;

/** To find a field in pieces takes longer the more pieces there are. */
const MAX_PIECED_FIELDS = 64;

/** A ModelInferRequest as it came: nothing checked but its form. All bytes are views of the message. */
export interface RequestMessage {
  readonly modelName: string;
  readonly modelVersion: string;
  readonly id: string;
  readonly parameters: WireParameters;
  readonly inputs: readonly InputMessage[];
  readonly outputs: readonly OutputMessage[];
  readonly rawContents: readonly (Uint8Array | Pieces)[];
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
export function parseRequestMessage(bytes: Uint8Array | Pieces): RequestMessage {
  try {
    return bytes instanceof Pieces ? readPieces(bytes) : readRequest(new BinaryReader(bytes));
  } catch (error) {
    if (error instanceof InferError) throw error;
    const problem = error instanceof Error ? error.message : 'unreadable';
    throw new InferError('INVALID_ARGUMENT', `the message is no ModelInferRequest: ${problem}`, { cause: error });
  }
}

function readRequest(reader: BinaryReader): RequestMessage {
  const draft = emptyDraft();
  while (reader.pos < reader.len) {
    const [field, wireType] = reader.tag();
    if (wireType !== WireType.LengthDelimited || field > RAW_CONTENTS) reader.skip(wireType, field);
    else if (field === RAW_CONTENTS) addEntry('raw_input_contents', draft.rawContents, reader.bytes());
    else readField(field, reader, draft);
  }
  return draft;
}

/** The same from pieces: raw contents stay in them, every other field is joined where it spans two. */
function readPieces(pieces: Pieces): RequestMessage {
  const draft = emptyDraft();
  let at = 0;
  for (let count = 0; at < pieces.length; count += 1) {
    const head = new BinaryReader(joinedOf(pieces.subarray(at, Math.min(at + MAX_HEAD_BYTES, pieces.length))));
    const [field, wireType] = head.tag();
    // What is unknown has to be skipped by its own rules, which may need all that follows.
    if (wireType !== WireType.LengthDelimited || field > RAW_CONTENTS || count === MAX_PIECED_FIELDS) {
      return readRequest(new BinaryReader(pieces.join()));
    }
    const lengthAt = at + head.pos;
    const length = head.uint32();
    const contentAt = at + head.pos;
    at = contentAt + length;
    if (at > pieces.length) throw new RangeError('premature EOF');
    if (field === RAW_CONTENTS) addEntry('raw_input_contents', draft.rawContents, pieces.subarray(contentAt, at));
    else readField(field, new BinaryReader(joinedOf(pieces.subarray(lengthAt, at))), draft);
  }
  return draft;
}

/** A request while it is read. */
type Draft = { -readonly [K in keyof RequestMessage]: RequestMessage[K] } & {
  readonly inputs: InputMessage[];
  readonly outputs: OutputMessage[];
  readonly rawContents: (Uint8Array | Pieces)[];
};

function emptyDraft(): Draft {
  return {
    modelName: '',
    modelVersion: '',
    id: '',
    parameters: NO_WIRE_PARAMETERS,
    inputs: [],
    outputs: [],
    rawContents: [],
  };
}

/** @param reader in front of the field's length */
function readField(field: number, reader: BinaryReader, draft: Draft): void {
  if (field === 1) draft.modelName = reader.string(true);
  else if (field === 2) draft.modelVersion = reader.string(true);
  else if (field === 3) draft.id = reader.string(true);
  else if (field === 4) draft.parameters = readParameter(reader, draft.parameters);
  else if (field === 5) addEntry('inputs', draft.inputs, readInput(reader));
  else addEntry('outputs', draft.outputs, readOutput(reader));
}

function readInput(reader: BinaryReader): InputMessage {
  const end = endOfField(reader);
  let name = '';
  let datatype = '';
  let parameters = NO_WIRE_PARAMETERS;
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
  return { name, datatype, shape, parameters, contents };
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
  let parameters = NO_WIRE_PARAMETERS;
  while (reader.pos < end) {
    const [field, wireType] = reader.tag();
    if (wireType !== WireType.LengthDelimited || field > 2) reader.skip(wireType, field);
    else if (field === 1) name = reader.string(true);
    else parameters = readParameter(reader, parameters);
  }
  assertAt(reader, end);
  return { name, parameters };
}

/** One entry of a `map<string, InferParameter>`; a key that comes again replaces the one before. */
function readParameter(reader: BinaryReader, known: WireParameters): WireParameters {
  const parameters =
    known === NO_WIRE_PARAMETERS ? new Map<string, ParameterChoice>() : (known as Map<string, ParameterChoice>);
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
