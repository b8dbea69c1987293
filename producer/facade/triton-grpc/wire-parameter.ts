import { InferError } from '../../../shared/errors.ts';
import { shownText, shownValue } from '../../../shared/tensor/text.ts';
import type { RegionRange } from '../../service/shared-memory.ts';
import { readRegionRange } from '../triton/region-parameters.ts';
import type { ParameterChoice, WireParameters } from './request-message.ts';

/** The field of InferParameter that a value came in, by its name in the protocol. */
const CHOICE_NAMES: Readonly<Record<NonNullable<ParameterChoice['case']>, string>> = {
  boolParam: 'bool_param',
  int64Param: 'int64_param',
  stringParam: 'string_param',
  doubleParam: 'double_param',
  uint64Param: 'uint64_param',
};

/** Where in shared memory a tensor lies or goes to; undefined when it does not. @throws InferError INVALID_ARGUMENT */
export function regionOf(where: string, parameters: WireParameters): RegionRange | undefined {
  if (parameters.size === 0) return undefined;
  return readRegionRange(where, {
    shared_memory_region: parameters.get('shared_memory_region')?.value,
    shared_memory_byte_size: parameters.get('shared_memory_byte_size')?.value,
    shared_memory_offset: parameters.get('shared_memory_offset')?.value,
  });
}

/** A 64-bit integer as a number where that is exact. */
export function exactNumber(value: bigint): number | bigint {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
}

/** @param expected the fields that may hold the value: "int64_param" */
export function wrongParameter(where: string, key: string, expected: string, given: ParameterChoice): InferError {
  const shown = given.case === undefined ? 'no value' : `${CHOICE_NAMES[given.case]} ${shownValue(given.value)}`;
  return new InferError('INVALID_ARGUMENT', `${where}${shownText(key)} must be ${expected}, got ${shown}`);
}
