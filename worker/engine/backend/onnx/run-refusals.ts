import { InferError } from '../../../../shared/errors.ts';
import type { GraphTensor } from '../../../../shared/model/graph-tensor.ts';
import { assertTensorData } from '../../../../shared/tensor/byte-length.ts';
import type { Datatype } from '../../../../shared/tensor/datatype.ts';
import type { Tensor } from '../../../../shared/tensor/tensor.ts';
import { shownNames, shownText } from '../../../../shared/tensor/text.ts';

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

function refusal(message: string): InferError {
  return new InferError('INVALID_ARGUMENT', message);
}
