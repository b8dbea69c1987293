import { InferError } from '../../../shared/errors.ts';
import { shownText, shownValue } from '../../../shared/tensor/text.ts';
import { asArray, asCount, asName, asObject } from './json-fields.ts';
import { assertNoSharedMemory } from './request-inputs.ts';

const MAX_OUTPUTS = 1024;

/** How one output is to come back. */
export interface OutputWish {
  readonly name: string;
  readonly binary: boolean;
  /** How many best classes instead of the tensor; 0 for the tensor itself. */
  readonly classes: number;
}

const NO_WISHES: readonly OutputWish[] = Object.freeze([]);

/**
 * The request's `outputs`; absent or empty means all of them.
 * @throws InferError INVALID_ARGUMENT, or UNIMPLEMENTED for shared memory.
 */
export function decodeOutputWishes(raw: unknown): readonly OutputWish[] {
  if (raw === undefined) return NO_WISHES;
  const list = asArray('outputs', raw, MAX_OUTPUTS);
  const wishes = list.map(decodeOutputWish);
  const names = new Set<string>();
  for (const { name } of wishes) {
    if (names.has(name)) throw new InferError('INVALID_ARGUMENT', `output ${shownText(name)} is listed twice`);
    names.add(name);
  }
  return wishes;
}

function decodeOutputWish(raw: unknown, index: number): OutputWish {
  const output = asObject(`outputs[${index}]`, raw);
  const name = asName(`outputs[${index}]: name`, output.name);
  if (output.parameters === undefined) return { name, binary: false, classes: 0 };
  const where = `output ${shownText(name)}`;
  const parameters = asObject(`${where}: parameters`, output.parameters);
  assertNoSharedMemory(where, parameters);
  const { binary_data: binary = false, classification = 0 } = parameters;
  if (typeof binary !== 'boolean') {
    throw new InferError('INVALID_ARGUMENT', `${where}: binary_data must be true or false, got ${shownValue(binary)}`);
  }
  return { name, binary, classes: asCount(`${where}: classification`, classification) };
}
