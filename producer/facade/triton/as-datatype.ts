import { InferError } from '../../../shared/errors.ts';
import type { ReadyModel } from '../../../shared/model/ready-model.ts';
import { type Datatype, isDatatype } from '../../../shared/tensor/datatype.ts';
import { shownValue } from '../../../shared/tensor/text.ts';

/**
 * The datatype that a client gave for an input.
 * @throws InferError INVALID_ARGUMENT with the one that the model wants, where it has such an input
 */
export function asDatatype(where: string, name: string, value: unknown, model: ReadyModel): Datatype {
  if (isDatatype(value)) return value;
  const spec = model.inputs.find((input) => input.name === name);
  const expected = spec ? `expected ${spec.datatype}` : 'expected one such as FP32, INT64 or BYTES';
  throw new InferError(
    'INVALID_ARGUMENT',
    `model ${model.name}, ${where}: ${shownValue(value)} is no datatype, ${expected}`,
  );
}
