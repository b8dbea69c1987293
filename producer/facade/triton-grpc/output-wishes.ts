import { InferError } from '../../../shared/errors.ts';
import { shownText, shownValue } from '../../../shared/tensor/text.ts';
import { assertDistinct, NO_WISHES, type OutputWish } from '../triton/output-wish.ts';
import { assertNotClassified } from '../triton/region-tensors.ts';
import type { OutputMessage, WireParameters } from './request-message.ts';
import { regionOf, wrongParameter } from './wire-parameter.ts';

const MAX_NAME_LENGTH = 1024;

/** The request's `outputs`; none means all of them. @throws InferError INVALID_ARGUMENT */
export function decodeOutputWishes(outputs: readonly OutputMessage[]): readonly OutputWish[] {
  if (outputs.length === 0) return NO_WISHES;
  const wishes = outputs.map(decodeOutputWish);
  assertDistinct(wishes);
  return wishes;
}

function decodeOutputWish({ name, parameters }: OutputMessage): OutputWish {
  if (name === '' || name.length > MAX_NAME_LENGTH) {
    throw new InferError(
      'INVALID_ARGUMENT',
      `the name of an output must have 1 to ${MAX_NAME_LENGTH} characters, got ${shownValue(name)}`,
    );
  }
  if (parameters.size === 0) return { name, binary: true, classes: 0 };
  const where = `output ${shownText(name)}`;
  const classes = decodeClasses(where, parameters);
  const region = regionOf(where, parameters);
  if (region !== undefined) assertNotClassified(where, classes);
  return { name, binary: true, classes, region };
}

/** 0 means the tensor itself, as over HTTP. */
function decodeClasses(where: string, parameters: WireParameters): number {
  const choice = parameters.get('classification');
  if (choice === undefined) return 0;
  if (choice.case === 'int64Param' && choice.value >= 0n) return Number(choice.value);
  throw wrongParameter(`${where}: `, 'classification', 'int64_param from 0 up', choice);
}
