import type { ModelConfig } from '../proto/generated/model_config_pb.ts';
import type { Datatype } from '../tensor/datatype.ts';
import type { Graph } from './complete-config.ts';
import { formatDims } from './dims.ts';
import type { GraphTensor } from './graph-tensor.ts';
import { CONTROL_DIMS, controlsOf, sequenceBatchingOf, statesOf } from './sequence-tensors.ts';

/** A tensor of `sequence_batching` that the model file does not have, or has otherwise. */
export interface SequenceMisfit {
  readonly side: 'input' | 'output';
  readonly tensor: string;
  readonly field: undefined;
  readonly what: string;
  readonly fix: string;
}

interface Expected {
  readonly what: string;
  readonly name: string;
  readonly side: 'input' | 'output';
  readonly datatype: Datatype;
  /** Without the batch dimension. */
  readonly dims: readonly number[];
}

/** Where the control and state tensors of a valid config are not what the model file declares. */
export function findSequenceMisfits(config: ModelConfig, graph: Graph): SequenceMisfit[] {
  const batching = sequenceBatchingOf(config);
  if (!batching) return [];
  const expected: Expected[] = controlsOf(batching).map(({ name, datatype }) => {
    return { what: 'control input', name, side: 'input', datatype, dims: CONTROL_DIMS };
  });
  for (const { inputName, outputName, datatype, dims } of statesOf(batching)) {
    expected.push({ what: 'state input', name: inputName, side: 'input', datatype, dims });
    expected.push({ what: 'state output', name: outputName, side: 'output', datatype, dims });
  }
  return expected.flatMap((tensor) => misfitOf(tensor, config.maxBatchSize > 0, graph) ?? []);
}

function misfitOf(expected: Expected, batching: boolean, graph: Graph): SequenceMisfit | undefined {
  const { what, name, side, datatype, dims } = expected;
  const declared = side === 'input' ? [...graph.inputs, ...(graph.optionalInputs ?? [])] : graph.outputs;
  const actual = declared.find((tensor) => tensor.name === name);
  const where = `sequence_batching: ${what} "${name}"`;
  const misfit = { side, tensor: name, field: undefined, fix: '' };
  if (!actual) {
    const names = declared.map((tensor) => tensor.name).join(', ') || 'none';
    return { ...misfit, what: `${where} is not in the model file, whose ${side}s are ${names}` };
  }
  if (actual.datatype !== datatype) {
    return { ...misfit, what: `${where} is ${datatype} in the config, the model file has ${actual.typeName}` };
  }
  const shape = batching ? [-1, ...dims] : dims;
  if (fits(shape, actual, batching)) return undefined;
  return { ...misfit, what: `${where} has shape ${formatDims(shape)}, the model file has ${formatDims(actual.shape)}` };
}

/** The file may leave open what the config fixes, and the config what differs from request to request. */
function fits(shape: readonly number[], { shape: actual }: GraphTensor, batching: boolean): boolean {
  if (shape.length !== actual.length) return false;
  return actual.every((dim, index) => {
    if (batching && index === 0) return dim === -1;
    return dim === -1 || dim === shape[index];
  });
}
