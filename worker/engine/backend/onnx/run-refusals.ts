import { InferError } from '../../../../shared/errors.ts';
import type { GraphTensor } from '../../../../shared/model/graph-tensor.ts';
import { assertTensorData } from '../../../../shared/tensor/byte-length.ts';
import type { Datatype } from '../../../../shared/tensor/datatype.ts';
import type { Tensor } from '../../../../shared/tensor/tensor.ts';
import { shownNames, shownShape, shownText } from '../../../../shared/tensor/text.ts';

/**
 * Checks what must hold before native code sees a tensor: the declared datatype, and as many bytes as shape and datatype
 * say. Ranks and dimensions are left to ONNX Runtime, which knows them best.
 * @throws InferError INVALID_ARGUMENT
 */
export function assertInput(tensor: Tensor, declared: GraphTensor): void {
  if (tensor.datatype !== declared.datatype) {
    const expected = declared.datatype ?? declared.typeName;
    throw refusal(`input ${tensor.name}: expected datatype ${expected}, got ${tensor.datatype}`);
  }
  assertTensorData(`input ${tensor.name}`, tensor);
}

/** The datatype of an output. @throws InferError INVALID_ARGUMENT for a type that no protocol of ours can carry. */
export function outputDatatype(declared: GraphTensor): Datatype {
  if (declared.datatype !== undefined) return declared.datatype;
  throw refusal(`output ${declared.name} is of type ${declared.typeName}, which cannot be returned`);
}

export function unknownInput(name: string, known: readonly string[]): InferError {
  return refusal(`unknown input ${shownText(name)}; the model file has ${shownNames(known)}`);
}

export function repeatedInput(name: string): InferError {
  return refusal(`input ${name} is given twice`);
}

export function missingInputs(names: readonly string[]): InferError {
  return refusal(`missing input ${shownNames(names)}`);
}

export function unknownOutput(name: string, known: readonly string[]): InferError {
  return refusal(`unknown output ${shownText(name)}; the model file has ${shownNames(known)}`);
}

export function repeatedOutput(name: string): InferError {
  return refusal(`output ${name} is asked for twice`);
}

export function noOutputs(): InferError {
  return refusal('no output is asked for');
}

/**
 * What a failed run tells the client. ONNX Runtime does not compare dimensions that the model file calls by one name, and
 * a run in which they differ mostly fails somewhere inside with a text that names no input. That is the client's mistake,
 * not ours. It is looked for after the failure only: a file may use a name carelessly, and then the run goes well.
 */
export function explainFailure(
  error: InferError,
  inputs: readonly Tensor[],
  declared: readonly GraphTensor[],
): InferError {
  if (error.code !== 'INTERNAL') return error;
  const message = unequalDims(inputs, declared);
  return message === undefined ? error : new InferError('INVALID_ARGUMENT', message, { cause: error });
}

function unequalDims(inputs: readonly Tensor[], declared: readonly GraphTensor[]): string | undefined {
  const seen = new Map<string, { readonly tensor: Tensor; readonly size: number }>();
  for (const tensor of inputs) {
    const symbols = declared.find(({ name }) => name === tensor.name)?.symbols ?? [];
    for (const [axis, symbol] of symbols.entries()) {
      const size = tensor.shape[axis];
      if (symbol === '' || size === undefined) continue;
      const first = seen.get(symbol);
      if (!first) seen.set(symbol, { tensor, size });
      else if (first.size !== size) return unequalText(symbol, first.tensor, tensor);
    }
  }
  return undefined;
}

function unequalText(symbol: string, one: Tensor, other: Tensor): string {
  const [first, second] = [one, other].map(({ name, shape }) => `${name} ${shownShape(shape)}`);
  const which = one === other ? `input ${first ?? ''} has` : `inputs ${first ?? ''} and ${second ?? ''} have`;
  return `${which} different sizes of "${shownText(symbol)}", which must be equal`;
}

function refusal(message: string): InferError {
  return new InferError('INVALID_ARGUMENT', message);
}
