import type { Graph } from '../../../../shared/model/complete-config.ts';
import type { GraphTensor } from '../../../../shared/model/graph-tensor.ts';
import type { Datatype } from '../../../../shared/tensor/datatype.ts';

export function tensor(name: string, shape: readonly number[], datatype: Datatype = 'FP32'): GraphTensor {
  return { name, datatype, typeName: datatype, shape, symbols: shape.map(() => '') };
}

export function graph(inputs: readonly GraphTensor[], outputs: readonly GraphTensor[]): Graph {
  return { inputs, outputs };
}
