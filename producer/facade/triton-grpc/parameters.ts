import { InferError } from '../../../shared/errors.ts';
import { NO_PARAMETERS, type Parameters, type ParameterValue } from '../../../shared/infer/request.ts';
import { shownText } from '../../../shared/tensor/text.ts';
import type { ParameterChoice, WireParameters } from './request-message.ts';
import { exactNumber, wrongParameter } from './wire-parameter.ts';

export interface RequestParameters {
  /** For the model and the scheduler. */
  readonly parameters: Parameters;
  readonly priority: number;
}

const NONE: RequestParameters = Object.freeze({ parameters: NO_PARAMETERS, priority: 0 });

/** About the form of the answer, which over gRPC is always the same; C++ clients send the first one with every request. */
const WITHOUT_MEANING: readonly string[] = ['triton_enable_empty_final_response', 'binary_data_output'];

/**
 * The request's own parameters. Known ones must have their type, all others may be a bool, an int64, a string or a double.
 * @throws InferError INVALID_ARGUMENT
 */
export function decodeRequestParameters(given: WireParameters): RequestParameters {
  if (given.size === 0) return NONE;
  const entries: [string, ParameterValue][] = [];
  for (const [key, choice] of given) {
    const value = checkParameter(key, choice);
    if (!WITHOUT_MEANING.includes(key)) entries.push([key, value]);
  }
  if (entries.length === 0) return NONE;
  // fromEntries defines own properties, so that "__proto__" is a name like any other.
  const parameters = Object.fromEntries(entries);
  const { priority } = parameters;
  return { parameters, priority: typeof priority === 'number' ? priority : 0 };
}

function checkParameter(key: string, choice: ParameterChoice): ParameterValue {
  switch (key) {
    case 'sequence_start':
    case 'sequence_end':
    case 'triton_enable_empty_final_response':
    case 'binary_data_output':
      if (choice.case === 'boolParam') return choice.value;
      throw wrongParameter('parameter ', key, 'bool_param', choice);
    case 'priority':
      if (choice.case === 'uint64Param' || (choice.case === 'int64Param' && choice.value >= 0n)) {
        return exactNumber(choice.value);
      }
      throw wrongParameter('parameter ', key, 'uint64_param, or int64_param from 0 up', choice);
    case 'timeout':
      if (choice.case === 'int64Param' && choice.value >= 0n) return exactNumber(choice.value);
      throw wrongParameter('parameter ', key, 'int64_param from 0 up', choice);
    case 'sequence_id':
      if (choice.case === 'stringParam') return choice.value;
      // An id is unsigned, and clients put the upper half of its range into the negative numbers of int64.
      if (choice.case === 'int64Param') return exactNumber(BigInt.asUintN(64, choice.value));
      throw wrongParameter('parameter ', key, 'int64_param or string_param', choice);
    default:
      return checkCustomParameter(key, choice);
  }
}

function checkCustomParameter(key: string, choice: ParameterChoice): ParameterValue {
  if (key.startsWith('triton_')) {
    throw new InferError('INVALID_ARGUMENT', `parameter ${shownText(key)}: names that start with triton_ are reserved`);
  }
  switch (choice.case) {
    case 'boolParam':
    case 'stringParam':
      return choice.value;
    case 'int64Param':
      return exactNumber(choice.value);
    case 'doubleParam':
      if (Number.isFinite(choice.value)) return choice.value;
      throw wrongParameter('parameter ', key, 'a finite number', choice);
    default:
      throw wrongParameter('parameter ', key, 'bool_param, int64_param, string_param or double_param', choice);
  }
}
