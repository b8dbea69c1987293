/**
 * The KServe v2 datatypes. `byteSize` is the size of one element on the wire in bytes, 0 for BYTES (variable);
 * `onnx` is ONNX's TensorProto.DataType number, which is ONNX Runtime's element type too; `config` is the enum number of
 * `inference.DataType` in config.pbtxt.
 */
const TABLE = {
  BOOL: { byteSize: 1, onnx: 9, config: 1 },
  UINT8: { byteSize: 1, onnx: 2, config: 2 },
  UINT16: { byteSize: 2, onnx: 4, config: 3 },
  UINT32: { byteSize: 4, onnx: 12, config: 4 },
  UINT64: { byteSize: 8, onnx: 13, config: 5 },
  INT8: { byteSize: 1, onnx: 3, config: 6 },
  INT16: { byteSize: 2, onnx: 5, config: 7 },
  INT32: { byteSize: 4, onnx: 6, config: 8 },
  INT64: { byteSize: 8, onnx: 7, config: 9 },
  FP16: { byteSize: 2, onnx: 10, config: 10 },
  FP32: { byteSize: 4, onnx: 1, config: 11 },
  FP64: { byteSize: 8, onnx: 11, config: 12 },
  BYTES: { byteSize: 0, onnx: 8, config: 13 },
  BF16: { byteSize: 2, onnx: 16, config: 14 },
} as const;

export type Datatype = keyof typeof TABLE;

export const DATATYPES = Object.keys(TABLE) as Datatype[];

export function isDatatype(value: unknown): value is Datatype {
  return typeof value === 'string' && Object.hasOwn(TABLE, value);
}

/** Bytes of one element on the wire; 0 for BYTES, whose elements carry their own length. */
export function byteSizeOf(datatype: Datatype): number {
  return TABLE[datatype].byteSize;
}

/** ONNX's element type number for a datatype. */
export function onnxTypeOf(datatype: Datatype): number {
  return TABLE[datatype].onnx;
}

const BY_ONNX = new Map(DATATYPES.map((name) => [TABLE[name].onnx as number, name]));
const BY_CONFIG = new Map(DATATYPES.map((name) => [TABLE[name].config as number, name]));

/** The datatype of an ONNX element type number, or undefined for one that KServe v2 cannot carry. */
export function datatypeOfOnnx(onnxType: number): Datatype | undefined {
  return BY_ONNX.get(onnxType);
}

/** The datatype of an `inference.DataType` enum number of config.pbtxt; undefined for TYPE_INVALID. */
export function datatypeOfConfig(configType: number): Datatype | undefined {
  return BY_CONFIG.get(configType);
}

/** The `inference.DataType` enum number of a datatype. */
export function configTypeOf(datatype: Datatype): number {
  return TABLE[datatype].config;
}
