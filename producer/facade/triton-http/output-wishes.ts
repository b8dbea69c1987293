import { InferError } from '../../../shared/errors.ts';
import { shownValue } from '../../../shared/tensor/text.ts';
import { assertDistinct, NO_WISHES, type OutputWish } from '../triton/output-wish.ts';
import { readRegionRange } from '../triton/region-parameters.ts';
import { assertNotClassified, outputLabel } from '../triton/region-tensors.ts';
import { asArray, asCount, asName, asObject } from './json-fields.ts';

const MAX_OUTPUTS = 1024;

/**
 * The request's `outputs`; absent or empty means all of them.
 * @throws InferError INVALID_ARGUMENT
 */
export function decodeOutputWishes(raw: unknown): readonly OutputWish[] {
  if (raw === undefined) return NO_WISHES;
  const list = asArray('outputs', raw, MAX_OUTPUTS);
  const wishes = list.map(decodeOutputWish);
  assertDistinct(wishes);
  return wishes;
}

function decodeOutputWish(raw: unknown, index: number): OutputWish {
  const output = asObject(`outputs[${index}]`, raw);
  const name = asName(`outputs[${index}]: name`, output.name);
  if (output.parameters === undefined) return { name, binary: false, classes: 0 };
  const where = outputLabel(name);
  const parameters = asObject(`${where}: parameters`, output.parameters);
  const { binary_data: binary = false, classification = 0 } = parameters;
  if (typeof binary !== 'boolean') {
    throw new InferError('INVALID_ARGUMENT', `${where}: binary_data must be true or false, got ${shownValue(binary)}`);
  }
  const classes = asCount(`${where}: classification`, classification);
  const region = readRegionRange(where, parameters);
  if (region !== undefined) {
    if (binary) throw new InferError('INVALID_ARGUMENT', `${where}: both shared memory and binary_data are asked for`);
    assertNotClassified(where, classes);
  }
  return { name, binary, classes, region };
}
