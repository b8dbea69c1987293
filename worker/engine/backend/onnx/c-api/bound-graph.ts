import koffi from 'koffi';
import type { GraphTensor } from '../../../../../shared/model/graph-tensor.ts';
import { onnxTypeOf } from '../../../../../shared/tensor/datatype.ts';
import type { Pointer } from './functions.ts';
import type { SessionGraph } from './graph.ts';

export interface BoundInput {
  readonly tensor: GraphTensor;
  /** Where a run keeps what belongs to this input. */
  readonly index: number;
  readonly required: boolean;
  readonly namePointer: Pointer;
  readonly onnxType: number;
}

/** Where a dimension of an output comes from: a number, or a dimension of an input. */
export type DimSource = number | { readonly input: number; readonly axis: number };

export interface BoundOutput {
  readonly tensor: GraphTensor;
  readonly namePointer: Pointer;
  readonly onnxType: number;
  /** How to know the shape before the run, by the names of the dimensions; undefined when that is not possible. */
  readonly dims: readonly DimSource[] | undefined;
}

/** A session's graph with everything that a run needs of it looked up already. */
export interface BoundGraph {
  readonly inputs: ReadonlyMap<string, BoundInput>;
  readonly requiredInputs: number;
  readonly outputs: ReadonlyMap<string, BoundOutput>;
  /** The memory that the name pointers point into; to be kept as long as they are used. */
  readonly names: readonly Buffer[];
}

export function bindGraph(graph: SessionGraph): BoundGraph {
  const names: Buffer[] = [];
  const pointerTo = (name: string): Pointer => {
    const text = Buffer.from(`${name}\0`, 'utf8');
    names.push(text);
    return koffi.address(text);
  };
  const all = [...graph.inputs, ...graph.optionalInputs];
  const inputs = all.map((tensor, index): [string, BoundInput] => [
    tensor.name,
    {
      tensor,
      index,
      required: index < graph.inputs.length,
      namePointer: pointerTo(tensor.name),
      onnxType: typeNumberOf(tensor),
    },
  ]);
  const outputs = graph.outputs.map((tensor): [string, BoundOutput] => [
    tensor.name,
    {
      tensor,
      namePointer: pointerTo(tensor.name),
      onnxType: typeNumberOf(tensor),
      dims: predictDims(tensor, all),
    },
  ]);
  return { inputs: new Map(inputs), requiredInputs: graph.inputs.length, outputs: new Map(outputs), names };
}

/** 0 for a type without a KServe name, which no run gets as far as using. */
function typeNumberOf(tensor: GraphTensor): number {
  return tensor.datatype === undefined ? 0 : onnxTypeOf(tensor.datatype);
}

function predictDims(output: GraphTensor, inputs: readonly GraphTensor[]): DimSource[] | undefined {
  // The size of texts is not known before the run. A shape without dimensions may also be one that is not declared.
  if (output.datatype === undefined || output.datatype === 'BYTES' || output.shape.length === 0) return undefined;
  // An output that is an input is handed through as it came; memory brought for it would never be written.
  if (inputs.some((input) => input.name === output.name)) return undefined;
  const dims: DimSource[] = [];
  for (const [axis, dim] of output.shape.entries()) {
    const source = dim >= 0 ? dim : findSymbol(output.symbols[axis] ?? '', inputs);
    if (source === undefined) return undefined;
    dims.push(source);
  }
  return dims;
}

function findSymbol(symbol: string, inputs: readonly GraphTensor[]): DimSource | undefined {
  if (symbol === '') return undefined;
  for (const [input, tensor] of inputs.entries()) {
    const axis = tensor.symbols.indexOf(symbol);
    if (axis >= 0) return { input, axis };
  }
  return undefined;
}
