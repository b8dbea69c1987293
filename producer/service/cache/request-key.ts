import { createHash } from 'node:crypto';
import type { InferRequest, ParameterValue } from '../../../shared/infer/request.ts';
import type { ReadyModel } from '../../../shared/model/ready-model.ts';
import type { Tensor } from '../../../shared/tensor/tensor.ts';

/** Says when a request runs, and nothing of its answer. */
const ABOUT_TIME: readonly string[] = ['priority', 'timeout'];

/**
 * What two requests must have in common to have the same answer, as a hash in base64url: the model with all that it is
 * made of, the outputs, and the inputs to the last byte. Not the request's id; not the order of inputs and outputs; and
 * parameters only where a model can see them.
 */
export function requestKey(model: ReadyModel, request: InferRequest): string {
  const inputs = request.inputs.length > 1 ? request.inputs.toSorted(byName) : request.inputs;
  const hash = createHash('sha256').update(
    JSON.stringify([
      model.identity,
      model.name,
      model.version,
      outputNames(model, request),
      inputs.map(({ name, datatype, shape, data, pixels }) => [name, datatype, shape, data.byteLength, pixels]),
      visibleParameters(model, request),
    ]),
  );
  for (const { data } of inputs) hash.update(data);
  return hash.digest('base64url');
}

function byName(a: Tensor, b: Tensor): number {
  return a.name < b.name ? -1 : 1;
}

function outputNames({ outputs }: ReadyModel, request: InferRequest): readonly string[] {
  if (request.outputs.length === 0) return outputs.map(({ name }) => name).sort();
  return request.outputs.toSorted();
}

/** ONNX Runtime knows inputs only. */
function visibleParameters({ config }: ReadyModel, { parameters }: InferRequest): [string, string][] {
  if (config.backend === 'onnxruntime') return [];
  return Object.entries(parameters)
    .filter(([name]) => !ABOUT_TIME.includes(name))
    .map(([name, value]): [string, string] => [name, `${typeof value} ${shown(value)}`])
    .sort(([a], [b]) => (a < b ? -1 : 1));
}

function shown(value: ParameterValue): string {
  return Object.is(value, -0) ? '-0' : String(value);
}
