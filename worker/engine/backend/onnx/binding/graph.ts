import type { GraphTensor } from '../../../../../shared/model/graph-tensor.ts';
import type { Datatype } from '../../../../../shared/tensor/datatype.ts';
import type { BindingValue } from './messages.ts';

const DATATYPES: Readonly<Record<string, Datatype>> = {
  bool: 'BOOL',
  uint8: 'UINT8',
  uint16: 'UINT16',
  uint32: 'UINT32',
  uint64: 'UINT64',
  int8: 'INT8',
  int16: 'INT16',
  int32: 'INT32',
  int64: 'INT64',
  float16: 'FP16',
  float32: 'FP32',
  float64: 'FP64',
  string: 'BYTES',
};

/** The package's names where they differ from ONNX's. */
const TYPE_NAMES: Readonly<Record<string, string>> = { float32: 'float', float64: 'double' };

/** An input or output, from the package's description. */
export function graphTensor({ name, isTensor, type = '', shape = [] }: BindingValue): GraphTensor {
  if (!isTensor) return { name, datatype: undefined, typeName: 'not a tensor', shape: [], symbols: [] };
  return {
    name,
    datatype: DATATYPES[type],
    typeName: `tensor(${TYPE_NAMES[type] ?? type})`,
    shape: shape.map((dim) => (typeof dim === 'number' ? dim : -1)),
    symbols: shape.map((dim) => (typeof dim === 'string' ? dim : '')),
  };
}
