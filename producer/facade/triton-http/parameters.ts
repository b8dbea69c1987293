import { InferError } from '../../../shared/errors.ts';
import { NO_PARAMETERS, type Parameters, type ParameterValue } from '../../../shared/infer/request.ts';
import { shownText, shownValue } from '../../../shared/tensor/text.ts';
import { asObject } from './json-fields.ts';

const MAX_PARAMETERS = 256;
const MIN_INT64 = -(2n ** 63n);
const MAX_UINT64 = 2n ** 64n - 1n;

export interface RequestParameters {
  /** For the model and the scheduler: everything but what is about the form of the answer. */
  readonly parameters: Parameters;
  /** How outputs that the request does not list come back. */
  readonly binaryByDefault: boolean;
  /** Whether NaN and infinities come back as bare words; undefined when the client does not say. */
  readonly bareNan: boolean | undefined;
  readonly priority: number;
}

const NONE: RequestParameters = Object.freeze({
  parameters: NO_PARAMETERS,
  binaryByDefault: false,
  bareNan: undefined,
  priority: 0,
});

/** What nearly every binary request carries: `binary_data_output` and nothing else. */
const BINARY_ONLY: RequestParameters = Object.freeze({ ...NONE, binaryByDefault: true });

/**
 * The request's own parameters. Known ones must have their type, all others may be a string, a number or a boolean.
 * @param exact the same object with integers beyond 2^53 as bigint; called only when it may matter.
 * @throws InferError INVALID_ARGUMENT
 */
export function decodeRequestParameters(raw: unknown, exact: () => unknown): RequestParameters {
  if (raw === undefined) return NONE;
  const source = asObject('parameters', raw);
  const keys = Object.keys(source);
  if (keys.length === 0) return NONE;
  if (keys.length === 1 && source.binary_data_output === true) return BINARY_ONLY;
  if (keys.length > MAX_PARAMETERS) {
    throw invalid(`the request has ${keys.length} parameters, at most ${MAX_PARAMETERS} are allowed`);
  }
  const entries: [string, ParameterValue][] = [];
  let exactSource: Record<string, unknown> | undefined;
  for (const key of keys) {
    let value = source[key];
    if (typeof value === 'number' && Number.isInteger(value) && !Number.isSafeInteger(value)) {
      exactSource ??= asObject('parameters', exact());
      value = exactSource[key];
    }
    const checked = checkParameter(key, value);
    if (key !== 'binary_data_output' && key !== 'bare_nan') entries.push([key, checked]);
  }
  const { priority, bare_nan: bareNan } = source;
  return {
    // fromEntries defines own properties, so that "__proto__" is a name like any other.
    parameters: entries.length === 0 ? NO_PARAMETERS : Object.fromEntries(entries),
    binaryByDefault: source.binary_data_output === true,
    bareNan: typeof bareNan === 'boolean' ? bareNan : undefined,
    // No model has so many levels that a larger one would not mean the default, as 0 does.
    priority: typeof priority === 'number' && Number.isSafeInteger(priority) ? priority : 0,
  };
}

function checkParameter(key: string, value: unknown): ParameterValue {
  switch (key) {
    case 'binary_data_output':
    case 'bare_nan':
    case 'sequence_start':
    case 'sequence_end':
      if (typeof value !== 'boolean') throw wrongType(key, 'true or false', value);
      return value;
    case 'priority':
    case 'timeout':
      if (!isUnsigned(value)) throw wrongType(key, 'a whole number from 0 to 2^64 - 1', value);
      return value;
    case 'sequence_id':
      if (typeof value !== 'string' && !isUnsigned(value)) {
        throw wrongType(key, 'a string or a whole number from 0 to 2^64 - 1', value);
      }
      return value;
    default:
      return checkCustomParameter(key, value);
  }
}

function checkCustomParameter(key: string, value: unknown): ParameterValue {
  if (key.startsWith('triton_')) {
    throw invalid(`parameter ${shownText(key)}: names that start with triton_ are reserved`);
  }
  if (typeof value === 'string' || typeof value === 'boolean') return value;
  if (typeof value === 'number' && Number.isFinite(value)) return value;
  if (typeof value === 'bigint' && value >= MIN_INT64 && value <= MAX_UINT64) return value;
  throw wrongType(key, 'a string, a number or a boolean', value);
}

function isUnsigned(value: unknown): value is number | bigint {
  if (typeof value === 'bigint') return value >= 0n && value <= MAX_UINT64;
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value < 2 ** 64;
}

function wrongType(key: string, expected: string, given: unknown): InferError {
  return invalid(`parameter ${shownText(key)} must be ${expected}, got ${shownValue(given)}`);
}

function invalid(message: string): InferError {
  return new InferError('INVALID_ARGUMENT', message);
}
