import { BinaryReader, WireType } from '@bufbuild/protobuf/wire';
import { InferError } from '../../../shared/errors.ts';

/** The messages of onnx.proto on the way to a tensor, with their field numbers. */
type MessageType = 'model' | 'graph' | 'function' | 'node' | 'attribute' | 'sparse' | 'tensor';

const INSIDE: Readonly<Record<MessageType, ReadonlyMap<number, MessageType>>> = {
  model: new Map([
    [7, 'graph'],
    [25, 'function'],
  ]),
  graph: new Map([
    [1, 'node'],
    [5, 'tensor'],
    [15, 'sparse'],
  ]),
  function: new Map([[7, 'node']]),
  node: new Map([[5, 'attribute']]),
  attribute: new Map([
    [5, 'tensor'],
    [6, 'graph'],
    [10, 'tensor'],
    [11, 'graph'],
    [22, 'sparse'],
    [23, 'sparse'],
  ]),
  sparse: new Map([
    [1, 'tensor'],
    [2, 'tensor'],
  ]),
  tensor: new Map(),
};

const TENSOR_EXTERNAL_DATA = 13;

/**
 * The names of the files beside an ONNX file that hold its weights, each once, as the file writes them.
 * @throws InferError INVALID_ARGUMENT for bytes that are no ONNX file.
 */
export function externalDataOf(onnx: Uint8Array): string[] {
  const locations = new Set<string>();
  try {
    visit(onnx, 'model', locations);
  } catch (error) {
    throw new InferError('INVALID_ARGUMENT', 'the file is no ONNX model', { cause: error });
  }
  return [...locations];
}

function visit(bytes: Uint8Array, type: MessageType, locations: Set<string>): void {
  const reader = new BinaryReader(bytes);
  while (reader.pos < reader.len) {
    const [field, wireType] = reader.tag();
    const inside = INSIDE[type].get(field);
    if (wireType === WireType.LengthDelimited && inside !== undefined) visit(reader.bytes(), inside, locations);
    else if (wireType === WireType.LengthDelimited && type === 'tensor' && field === TENSOR_EXTERNAL_DATA) {
      const [key, value] = readEntry(reader.bytes());
      if (key === 'location') locations.add(value);
    } else reader.skip(wireType, field);
  }
}

function readEntry(bytes: Uint8Array): [string, string] {
  const reader = new BinaryReader(bytes);
  const entry: [string, string] = ['', ''];
  while (reader.pos < reader.len) {
    const [field, wireType] = reader.tag();
    if (field === 1) entry[0] = reader.string();
    else if (field === 2) entry[1] = reader.string();
    else reader.skip(wireType, field);
  }
  return entry;
}
