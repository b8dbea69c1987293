import { nearestName } from '../nearest-name.ts';
import type { ModelConfig, ModelInput, ModelOutput } from '../proto/generated/model_config_pb.ts';
import { datatypeOfConfig } from '../tensor/datatype.ts';
import type { Graph } from './complete-config.ts';
import { formatDims } from './dims.ts';
import type { GraphTensor } from './graph-tensor.ts';
import { findSequenceMisfits } from './sequence-misfits.ts';
import { hiddenInputs } from './sequence-tensors.ts';

/** One way in which a config and its model file do not fit. */
export interface Misfit {
  readonly side: 'input' | 'output';
  readonly tensor: string;
  /** The field of the tensor that is wrong; undefined where the config does not have the tensor. */
  readonly field: 'name' | 'data_type' | 'dims' | 'reshape' | 'optional' | undefined;
  readonly what: string;
  /** The change of the config that repairs it, if there is one. */
  readonly fix: string;
  /** Where the shapes do not fit: what the config says, what that means with the batch dimension, what the file has. */
  readonly shapes?: {
    readonly config: readonly number[];
    readonly maxBatchSize: number;
    readonly effective: readonly number[];
    readonly model: readonly number[];
  };
}

/**
 * Compares a valid config with what the model file declares: every input of the file must be in the config, outputs may
 * be left out; names, types and shapes must fit. One text for each misfit, with the likely fix.
 */
export function verifyModelConfig(config: ModelConfig, graph: Graph): string[] {
  return findMisfits(config, graph).map(({ what, fix }) => (fix === '' ? what : `${what}; ${fix}`));
}

/** The same as data. */
export function findMisfits(config: ModelConfig, graph: Graph): Misfit[] {
  const misfits: Misfit[] = [];
  const inputs = [...graph.inputs, ...(graph.optionalInputs ?? [])];
  const served = new Set(config.input.map(({ name }) => nearestInput(name, inputs) ?? name));
  const hidden = hiddenInputs(config);
  for (const input of graph.inputs) {
    if (!served.has(input.name) && !hidden.has(input.name)) misfits.push(missingInput(input, config.maxBatchSize));
  }
  for (const input of config.input) verifyTensor(misfits, 'input', input, inputs, config.maxBatchSize);
  for (const { name, optional } of config.input) {
    if (!optional || !graph.inputs.some((input) => input.name === name)) continue;
    const what = `input "${name}" is optional in the config, but the model file has no default for it`;
    misfits.push({ side: 'input', tensor: name, field: 'optional', what, fix: 'remove optional: true' });
  }
  for (const output of config.output) verifyTensor(misfits, 'output', output, graph.outputs, config.maxBatchSize);
  misfits.push(...findSequenceMisfits(config, graph));
  return misfits;
}

/** The input of the file that a misspelt name stands for: it is there, under a wrong name, and not missing as well. */
function nearestInput(name: string, inputs: readonly GraphTensor[]): string | undefined {
  const names = inputs.map((input) => input.name);
  return names.includes(name) ? name : nearestName(name, names);
}

function missingInput({ name, datatype, shape }: GraphTensor, maxBatchSize: number): Misfit {
  const type = datatype === undefined ? '' : ` data_type: ${typeName(datatype)}`;
  const rows = maxBatchSize > 0 && shape[0] === -1;
  const fix = `add input { name: "${name}"${type} ${dimsFor(undefined, rows ? shape.slice(1) : shape)} }`;
  const what = `input "${name}" of the model file is missing in the config`;
  return { side: 'input', tensor: name, field: undefined, what, fix };
}

function verifyTensor(
  misfits: Misfit[],
  side: Misfit['side'],
  tensor: ModelInput | ModelOutput,
  declared: readonly GraphTensor[],
  maxBatchSize: number,
): void {
  const names = declared.map((candidate) => candidate.name);
  const right = names.includes(tensor.name) ? tensor.name : nearestName(tensor.name, names);
  if (right !== tensor.name) misfits.push(unknownTensor(side, tensor.name, names, right));
  const actual = declared.find((candidate) => candidate.name === right);
  if (!actual) return;
  for (const misfit of [misfitOfType(side, tensor, actual), misfitOfShape(side, tensor, actual, maxBatchSize)]) {
    if (misfit) misfits.push(misfit);
  }
}

function unknownTensor(
  side: Misfit['side'],
  tensor: string,
  names: readonly string[],
  right: string | undefined,
): Misfit {
  const what = `${side} "${tensor}" is not in the model file, whose ${side}s are ${names.join(', ') || 'none'}`;
  const fix = right === undefined ? `remove the ${side}` : `set name: "${right}"`;
  return { side, tensor, field: 'name', what, fix };
}

function misfitOfType(
  side: Misfit['side'],
  { name, dataType }: ModelInput | ModelOutput,
  actual: GraphTensor,
): Misfit | undefined {
  const where = { side, tensor: name, field: 'data_type' as const };
  if (actual.datatype === undefined) {
    const what = `${side} "${name}" is of type ${actual.typeName} in the model file, which the protocol cannot carry`;
    return { ...where, what, fix: '' };
  }
  if (datatypeOfConfig(dataType) === actual.datatype) return undefined;
  const wanted = typeName(datatypeOfConfig(dataType) ?? 'INVALID');
  const right = typeName(actual.datatype);
  const what = `${side} "${name}": the config has data_type ${wanted}, the model file has ${right}`;
  return { ...where, what, fix: `set data_type: ${right}` };
}

function typeName(datatype: string): string {
  return datatype === 'BYTES' ? 'TYPE_STRING' : `TYPE_${datatype}`;
}

function misfitOfShape(
  side: Misfit['side'],
  tensor: ModelInput | ModelOutput,
  actual: GraphTensor,
  maxBatchSize: number,
): Misfit | undefined {
  const dims = (tensor.reshape?.shape ?? tensor.dims).map(Number);
  const effective = maxBatchSize > 0 ? [-1, ...dims] : dims;
  if (fits(effective, actual.shape, side, maxBatchSize)) return undefined;
  const source = tensor.reshape ? `reshape ${formatDims(dims)}` : `dims ${formatDims(dims)}`;
  const given = `${source} with max_batch_size ${maxBatchSize}${maxBatchSize === 0 ? ' (or none)' : ''}`;
  const shapes = `mean shape ${formatDims(effective)}, the model file has ${formatDims(actual.shape)}`;
  return {
    side,
    tensor: tensor.name,
    field: tensor.reshape ? 'reshape' : 'dims',
    what: `${side} "${tensor.name}": ${given} ${shapes}`,
    fix: suggestFix(tensor, dims, actual.shape, maxBatchSize),
    shapes: { config: dims, maxBatchSize, effective, model: actual.shape },
  };
}

/** A config may fix a length that an input leaves open; everything else must be as declared. */
function fits(
  effective: readonly number[],
  actual: readonly number[],
  side: Misfit['side'],
  maxBatchSize: number,
): boolean {
  if (effective.length !== actual.length) return false;
  return actual.every((dim, index) => {
    const mayFix = side === 'input' && dim === -1 && !(maxBatchSize > 0 && index === 0);
    return mayFix || dim === effective[index];
  });
}

function suggestFix(
  tensor: ModelInput | ModelOutput,
  dims: readonly number[],
  actual: readonly number[],
  maxBatchSize: number,
): string {
  if (maxBatchSize === 0) {
    const batchLeftOut = actual[0] === -1 && actual.length === dims.length + 1;
    return batchLeftOut
      ? `set max_batch_size to 1 or more, or ${dimsFor(tensor, actual)}`
      : `set ${dimsFor(tensor, actual)}`;
  }
  const first = actual[0];
  if (first !== -1) {
    const why =
      first === undefined ? 'the model has no batch dimension' : `dimension 0 of the model is fixed to ${first}`;
    const export_ = first === undefined ? '' : ', or export the model with a dynamic first dimension';
    return `${why}, so it cannot batch: set max_batch_size: 0 and ${dimsFor(tensor, actual)}${export_}`;
  }
  const twice = dims.length === actual.length ? 'the batch dimension does not belong in the config: ' : '';
  return `${twice}set ${dimsFor(tensor, actual.slice(1))}`;
}

/** How a config writes a shape: a scalar needs a reshape, and so does whoever has one already. */
function dimsFor(tensor: ModelInput | ModelOutput | undefined, shape: readonly number[]): string {
  if (shape.length === 0) return 'dims: [ 1 ] reshape: { shape: [ ] }';
  return tensor?.reshape ? `reshape: { shape: ${formatDims(shape)} }` : `dims: ${formatDims(shape)}`;
}
