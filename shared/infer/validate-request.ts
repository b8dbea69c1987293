import { InferError } from '../errors.ts';
import type { ReadyModel, TensorSpec } from '../model/ready-model.ts';
import { assertTensorData } from '../tensor/byte-length.ts';
import type { Tensor } from '../tensor/tensor.ts';
import { shownNames, shownShape, shownText } from '../tensor/text.ts';
import type { InferRequest } from './request.ts';

/** What a request has to fit. */
export type RequestContract = Pick<ReadyModel, 'name' | 'maxBatchSize' | 'inputs' | 'outputs'> & {
  /** Why fewer rows are taken than the config says; added to the refusal. */
  readonly batchNote?: string;
};

/**
 * Checks a request against the model it is for: inputs by name, datatype, shape and size, one batch size, outputs by
 * name. Behind it a request fits its model. Both sides of the queue call it: the producer before a request costs
 * anything, the engine because a job on Redis is not trusted and a wrong length would shift the rows of its companions.
 * @throws InferError INVALID_ARGUMENT naming model, tensor, what was expected and what was given.
 */
export function assertRequestFits(model: RequestContract, request: InferRequest): void {
  assertInputNames(model, request.inputs);
  for (const tensor of request.inputs) {
    const spec = findSpec(model.inputs, tensor.name);
    if (spec) assertInputFits(model, spec, tensor);
  }
  if (model.maxBatchSize > 0) assertBatchSize(model, request.inputs);
  if (request.outputs.length > 0) assertOutputNames(model, request.outputs);
}

/** A list is searched from the front: models have a handful of inputs, and a map costs more. */
function findSpec(specs: readonly TensorSpec[], name: string): TensorSpec | undefined {
  for (const spec of specs) if (spec.name === name) return spec;
  return undefined;
}

function assertInputNames(model: RequestContract, inputs: readonly Tensor[]): void {
  for (let i = 0; i < inputs.length; i++) {
    const name = inputs[i]?.name ?? '';
    if (!findSpec(model.inputs, name)) {
      throw invalid(
        `model ${model.name}: unknown input ${shownText(name)}, expected ${shownNames(namesOf(model.inputs))}`,
      );
    }
    // Quadratic, but a name that is not unique is found before the list can get longer than the model's own.
    for (let j = 0; j < i; j++) {
      if (inputs[j]?.name === name) throw invalid(`model ${model.name}: input ${shownText(name)} is given twice`);
    }
  }
  if (inputs.length === model.inputs.length) return;
  for (const spec of model.inputs) {
    if (spec.optional || inputs.some((input) => input.name === spec.name)) continue;
    throw invalid(
      `model ${model.name}: input ${spec.name} is missing, expected ${shownNames(namesOf(model.inputs))}, got ${shownNames(namesOf(inputs))}`,
    );
  }
}

function assertInputFits(model: RequestContract, spec: TensorSpec, tensor: Tensor): void {
  const where = `model ${model.name}, input ${spec.name}`;
  if (tensor.datatype !== spec.datatype) {
    throw invalid(`${where}: expected datatype ${spec.datatype}, got ${tensor.datatype}`);
  }
  if (!shapeFits(spec.shape, tensor.shape)) {
    throw invalid(`${where}: expected shape ${shownShape(spec.shape)}, got ${shownShape(tensor.shape)}`);
  }
  if (tensor.pixels && tensor.datatype !== 'FP32') {
    throw invalid(`${where}: pixels stand for FP32 values, and the datatype is ${tensor.datatype}`);
  }
  assertTensorData(where, tensor);
}

function shapeFits(expected: readonly number[], given: readonly number[]): boolean {
  if (given.length !== expected.length) return false;
  for (let i = 0; i < given.length; i++) {
    if (expected[i] !== -1 && expected[i] !== given[i]) return false;
  }
  return true;
}

function assertBatchSize(model: RequestContract, inputs: readonly Tensor[]): void {
  const [first] = inputs;
  if (!first) return;
  const rows = first.shape[0] ?? 0;
  for (const input of inputs) {
    if (input.shape[0] === rows) continue;
    throw invalid(
      `model ${model.name}: all inputs must have the same batch size, but ${first.name} has ${rows} and ${input.name} has ${input.shape[0] ?? 0}`,
    );
  }
  if (rows === 0) throw invalid(`model ${model.name}: batch size must be at least 1, got 0`);
  if (rows > model.maxBatchSize) {
    const note = model.batchNote === undefined ? '' : ` (${model.batchNote})`;
    throw invalid(`model ${model.name}: batch-size must be <= ${model.maxBatchSize}, got ${rows}${note}`);
  }
}

function assertOutputNames(model: RequestContract, outputs: readonly string[]): void {
  for (let i = 0; i < outputs.length; i++) {
    const name = outputs[i] ?? '';
    if (!findSpec(model.outputs, name)) {
      throw invalid(
        `model ${model.name}: unknown output ${shownText(name)}, expected ${shownNames(namesOf(model.outputs))}`,
      );
    }
    if (outputs.indexOf(name) !== i) throw invalid(`model ${model.name}: output ${shownText(name)} is listed twice`);
  }
}

function namesOf(tensors: readonly { readonly name: string }[]): string[] {
  return tensors.map(({ name }) => name);
}

function invalid(message: string): InferError {
  return new InferError('INVALID_ARGUMENT', message);
}
