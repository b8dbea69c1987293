import { nearestName } from '../nearest-name.ts';
import type { ModelConfig, ModelInput, ModelOutput } from '../proto/generated/model_config_pb.ts';
import { datatypeOfConfig } from '../tensor/datatype.ts';
import type { Graph } from './complete-config.ts';
import { formatDims } from './dims.ts';
import type { GraphTensor } from './graph-tensor.ts';

type Kind = 'input' | 'output';

/**
 * Compares a valid config with what the model file declares: every input of the file must be in the config, outputs may
 * be left out; names, types and shapes must fit. One text for each misfit, with the likely fix.
 */
export function verifyModelConfig(config: ModelConfig, graph: Graph): string[] {
  const problems: string[] = [];
  const served = new Set(config.input.map((input) => input.name));
  const missing = graph.inputs.filter((input) => !served.has(input.name));
  for (const { name } of missing) problems.push(`input "${name}" of the model file is missing in the config`);
  const inputs = [...graph.inputs, ...(graph.optionalInputs ?? [])];
  for (const input of config.input) verifyTensor(problems, 'input', input, inputs, config.maxBatchSize);
  const needed = config.input.filter(
    ({ name, optional }) => optional && graph.inputs.some((input) => input.name === name),
  );
  for (const { name } of needed)
    problems.push(`input "${name}" is optional in the config, but the model file has no default for it`);
  for (const output of config.output) verifyTensor(problems, 'output', output, graph.outputs, config.maxBatchSize);
  return problems;
}

function verifyTensor(
  problems: string[],
  kind: Kind,
  tensor: ModelInput | ModelOutput,
  declared: readonly GraphTensor[],
  maxBatchSize: number,
): void {
  const where = `${kind} "${tensor.name}"`;
  const actual = declared.find((candidate) => candidate.name === tensor.name);
  if (!actual) {
    const names = declared.map((candidate) => candidate.name);
    const nearest = nearestName(tensor.name, names);
    const hint = nearest === undefined ? '' : `; did you mean "${nearest}"?`;
    problems.push(`${where} is not in the model file, whose ${kind}s are ${names.join(', ') || 'none'}${hint}`);
    return;
  }
  verifyType(problems, where, tensor, actual);
  verifyShape(problems, kind, tensor, actual, maxBatchSize);
}

function verifyType(problems: string[], where: string, tensor: ModelInput | ModelOutput, actual: GraphTensor): void {
  if (actual.datatype === undefined) {
    problems.push(`${where} is of type ${actual.typeName} in the model file, which the protocol cannot carry`);
  } else if (datatypeOfConfig(tensor.dataType) !== actual.datatype) {
    const wanted = typeName(datatypeOfConfig(tensor.dataType) ?? 'INVALID');
    const right = typeName(actual.datatype);
    problems.push(`${where}: the config has data_type ${wanted}, the model file has ${right}; set data_type: ${right}`);
  }
}

function typeName(datatype: string): string {
  return datatype === 'BYTES' ? 'TYPE_STRING' : `TYPE_${datatype}`;
}

function verifyShape(
  problems: string[],
  kind: Kind,
  tensor: ModelInput | ModelOutput,
  actual: GraphTensor,
  maxBatchSize: number,
): void {
  const dims = (tensor.reshape?.shape ?? tensor.dims).map(Number);
  const effective = maxBatchSize > 0 ? [-1, ...dims] : dims;
  if (fits(effective, actual.shape, kind, maxBatchSize)) return;
  const source = tensor.reshape ? `reshape ${formatDims(dims)}` : `dims ${formatDims(dims)}`;
  const given = `${source} with max_batch_size ${maxBatchSize}${maxBatchSize === 0 ? ' (or none)' : ''}`;
  const shapes = `mean shape ${formatDims(effective)}, the model file has ${formatDims(actual.shape)}`;
  const fix = suggestFix(tensor, dims, actual.shape, maxBatchSize);
  problems.push(`${kind} "${tensor.name}": ${given} ${shapes}; ${fix}`);
}

/** A config may fix a length that an input leaves open; everything else must be as declared. */
function fits(effective: readonly number[], actual: readonly number[], kind: Kind, maxBatchSize: number): boolean {
  if (effective.length !== actual.length) return false;
  return actual.every((dim, index) => {
    const mayFix = kind === 'input' && dim === -1 && !(maxBatchSize > 0 && index === 0);
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
function dimsFor(tensor: ModelInput | ModelOutput, shape: readonly number[]): string {
  if (shape.length === 0) return 'dims: [ 1 ] reshape: { shape: [ ] }';
  return tensor.reshape ? `reshape: { shape: ${formatDims(shape)} }` : `dims: ${formatDims(shape)}`;
}
