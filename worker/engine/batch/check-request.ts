import { InferError } from '../../../shared/errors.ts';
import type { InferRequest } from '../../../shared/infer/request.ts';
import type { Tensor } from '../../../shared/tensor/tensor.ts';
import { elementCount } from '../../../shared/tensor/tensor.ts';
import { bytesEnd } from './bytes-rows.ts';
import type { ModelPlan, TensorPlan } from './model-plan.ts';

/**
 * The inputs of a request in the order of the config. Facades and consumers have validated the request before; what is
 * checked again here is what the memory of others depends on: a tensor of the wrong length would shift the rows of every
 * companion in the batch.
 * @throws InferError INVALID_ARGUMENT.
 */
export function orderInputs(plan: ModelPlan, request: InferRequest): readonly Tensor[] {
  const given = request.inputs;
  const ordered = inConfigOrder(plan, given) ? given : reorder(plan, given);
  for (const name of request.outputs) {
    if (!plan.outputNames.includes(name)) {
      const expected = `expected one of ${quoted(plan.outputNames)}`;
      throw invalid(plan, `has no output '${name}', ${expected}`);
    }
  }
  return ordered;
}

/**
 * Checks the tensors and returns the rows of the request; 1 for models without a batch dimension.
 * @throws InferError INVALID_ARGUMENT.
 */
export function checkInputs(plan: ModelPlan, inputs: readonly Tensor[]): number {
  let rows = plan.batched ? -1 : 1;
  let at = 0;
  for (const tensor of inputs) {
    while (at < plan.inputs.length && plan.inputs[at]?.spec.name !== tensor.name) at += 1; // both are in the order of the config
    const planned = plan.inputs[at];
    if (planned) checkTensor(plan, planned, tensor);
    if (plan.batched) {
      const first = tensor.shape[0] ?? 0;
      if (rows === -1) rows = first;
      else if (rows !== first) {
        throw invalid(plan, `wants the same batch size in all inputs, got ${rows} and ${first} in '${tensor.name}'`);
      }
    }
  }
  if (rows > plan.maxRows) {
    const why = plan.oneRowReason === '' ? '' : ` (${plan.oneRowReason})`;
    const what = `inference request batch-size must be <= ${plan.maxRows} for '${plan.model}', got ${rows}${why}`;
    throw new InferError('INVALID_ARGUMENT', what);
  }
  return Math.max(0, rows);
}

function inConfigOrder(plan: ModelPlan, given: readonly Tensor[]): boolean {
  if (given.length !== plan.inputs.length) return false;
  for (let i = 0; i < given.length; i += 1) if (given[i]?.name !== plan.inputs[i]?.spec.name) return false;
  return true;
}

function reorder(plan: ModelPlan, given: readonly Tensor[]): Tensor[] {
  const ordered: Tensor[] = [];
  for (const { spec } of plan.inputs) {
    const tensor = given.find((candidate) => candidate.name === spec.name);
    if (tensor) ordered.push(tensor);
    else if (!spec.optional) throw invalid(plan, `needs the input '${spec.name}', got ${quoted(given.map(nameOf))}`);
  }
  if (ordered.length < given.length) {
    const expected = quoted(plan.inputs.map((input) => input.spec.name));
    throw invalid(plan, `takes the inputs ${expected}, each once, got ${quoted(given.map(nameOf))}`);
  }
  return ordered;
}

function checkTensor(plan: ModelPlan, { spec, elementBytes }: TensorPlan, tensor: Tensor): void {
  const { datatype, shape, data, pixels } = tensor;
  if (datatype !== spec.datatype) {
    throw invalid(plan, `wants ${spec.datatype} for input '${spec.name}', got ${datatype}`);
  }
  let fits = shape.length === spec.shape.length;
  for (let i = 0; fits && i < shape.length; i += 1) {
    const wanted = spec.shape[i];
    fits = wanted === -1 || wanted === shape[i];
  }
  if (!fits) {
    throw invalid(plan, `wants the shape [${spec.shape.join(',')}] for input '${spec.name}', got [${shape.join(',')}]`);
  }
  if (pixels && datatype !== 'FP32')
    throw invalid(plan, `takes pixels for FP32 inputs only, '${spec.name}' is ${datatype}`);
  const elements = elementCount(shape);
  if (elementBytes === 0) {
    if (bytesEnd(data, 0, elements) !== data.byteLength) {
      throw invalid(plan, `wants ${elements} elements in input '${spec.name}', its data holds more or fewer`);
    }
    return;
  }
  const expected = pixels ? elements : elements * elementBytes;
  if (data.byteLength !== expected) {
    throw invalid(plan, `wants ${expected} bytes for input '${spec.name}', got ${data.byteLength}`);
  }
}

function invalid(plan: ModelPlan, what: string): InferError {
  return new InferError('INVALID_ARGUMENT', `model '${plan.model}' ${what}`);
}

function nameOf(tensor: Tensor): string {
  return tensor.name;
}

function quoted(names: readonly string[]): string {
  return names.length === 0 ? 'none' : names.map((name) => `'${name}'`).join(', ');
}
