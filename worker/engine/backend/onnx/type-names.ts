/** ONNX's names of element types, by ONNX's own numbers. */
const ELEMENT_TYPES: readonly string[] = [
  'undefined',
  'float',
  'uint8',
  'int8',
  'uint16',
  'int16',
  'int32',
  'int64',
  'string',
  'bool',
  'float16',
  'double',
  'uint32',
  'uint64',
  'complex64',
  'complex128',
  'bfloat16',
  'float8e4m3fn',
  'float8e4m3fnuz',
  'float8e5m2',
  'float8e5m2fnuz',
  'uint4',
  'int4',
  'float4e2m1',
];

/** ONNX's name of a tensor type, as ONNX Runtime prints it. */
export function tensorTypeName(elementType: number): string {
  return `tensor(${ELEMENT_TYPES[elementType] ?? `element type ${elementType}`})`;
}
