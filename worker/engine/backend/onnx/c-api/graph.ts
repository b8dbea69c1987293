import koffi from 'koffi';
import type { GraphTensor } from '../../../../../shared/model/graph-tensor.ts';
import { datatypeOfOnnx } from '../../../../../shared/tensor/datatype.ts';
import { tensorTypeName } from '../type-names.ts';
import { intFrom, numberFrom, pointerFrom, textFrom, type Api } from './api.ts';
import type { Memory, OrtFunctions, Pointer, Status } from './functions.ts';
import { assertOk } from './status.ts';

/** What a session declares. */
export interface SessionGraph {
  readonly inputs: readonly GraphTensor[];
  /** Inputs with a default value in the file, which a run may leave out. */
  readonly optionalInputs: readonly GraphTensor[];
  readonly outputs: readonly GraphTensor[];
}

/** Reads names, types and shapes. @throws OrtCallError */
export function readGraph(api: Api, session: Pointer): SessionGraph {
  const { ort } = api;
  return {
    inputs: readSide(api, session, {
      count: ort.SessionGetInputCount,
      name: ort.SessionGetInputName,
      type: ort.SessionGetInputTypeInfo,
    }),
    optionalInputs: readSide(api, session, {
      count: ort.SessionGetOverridableInitializerCount,
      name: ort.SessionGetOverridableInitializerName,
      type: ort.SessionGetOverridableInitializerTypeInfo,
    }),
    outputs: readSide(api, session, {
      count: ort.SessionGetOutputCount,
      name: ort.SessionGetOutputName,
      type: ort.SessionGetOutputTypeInfo,
    }),
  };
}

interface Side {
  readonly count: (session: Pointer, out: Memory) => Status;
  readonly name: (session: Pointer, index: number, allocator: Pointer, out: Memory) => Status;
  readonly type: (session: Pointer, index: number, out: Memory) => Status;
}

function readSide(api: Api, session: Pointer, side: Side): GraphTensor[] {
  const count = numberFrom(api.ort, (out) => side.count(session, out));
  return Array.from({ length: count }, (_, index) => {
    const name = textFrom(api, (out) => side.name(session, index, api.allocator, out));
    const typeInfo = pointerFrom(api.ort, (out) => side.type(session, index, out));
    try {
      return { name, ...readType(api.ort, typeInfo) };
    } finally {
      api.ort.ReleaseTypeInfo(typeInfo);
    }
  });
}

const TENSOR_KIND = 1;
const KIND_NAMES = ['unknown', 'tensor', 'sequence', 'map', 'opaque', 'sparse tensor', 'optional'];

function readType(ort: OrtFunctions, typeInfo: Pointer): Omit<GraphTensor, 'name'> {
  const kind = intFrom(ort, (out) => ort.GetOnnxTypeFromTypeInfo(typeInfo, out));
  if (kind !== TENSOR_KIND) {
    return { datatype: undefined, typeName: KIND_NAMES[kind] ?? `kind ${kind}`, shape: [], symbols: [] };
  }
  // Belongs to the type info and is released with it.
  const tensorInfo = pointerFrom(ort, (out) => ort.CastTypeInfoToTensorInfo(typeInfo, out));
  const elementType = intFrom(ort, (out) => ort.GetTensorElementType(tensorInfo, out));
  const rank = numberFrom(ort, (out) => ort.GetDimensionsCount(tensorInfo, out));
  return {
    datatype: datatypeOfOnnx(elementType),
    typeName: tensorTypeName(elementType),
    shape: readDims(ort, tensorInfo, rank),
    symbols: readSymbols(ort, tensorInfo, rank),
  };
}

function readDims(ort: OrtFunctions, tensorInfo: Pointer, rank: number): number[] {
  const dims = new BigInt64Array(rank);
  if (rank > 0) assertOk(ort, ort.GetDimensions(tensorInfo, dims, rank));
  return Array.from(dims, Number);
}

function readSymbols(ort: OrtFunctions, tensorInfo: Pointer, rank: number): string[] {
  const names = new BigUint64Array(rank);
  if (rank > 0) assertOk(ort, ort.GetSymbolicDimensions(tensorInfo, names, rank));
  // The texts belong to the type info.
  return Array.from(names, (pointer) => (pointer === 0n ? '' : koffi.decode.string(pointer)));
}
