import { InferError } from '../errors.ts';
import { NO_PARAMETERS, type Parameters, type ParameterValue } from '../infer/request.ts';
import { isRecord } from './record.ts';

/** JSON has neither 64-bit integers nor infinities, so those travel as tagged texts. */
type WireValue = string | number | boolean | { readonly int64: string } | { readonly double: string };

const MAX_PARAMETERS = 1024;
const INT64 = /^-?\d{1,20}$/;
const NOT_FINITE = ['NaN', 'Infinity', '-Infinity'];

/** Parameters as JSON values; undefined when there are none, so that the key is left out. */
export function encodeParameters(parameters: Parameters): Record<string, WireValue> | undefined {
  const names = Object.keys(parameters);
  if (names.length === 0) return undefined;
  return Object.fromEntries(Object.entries(parameters).map(([name, value]) => [name, encodeValue(value)]));
}

function encodeValue(value: ParameterValue): WireValue {
  if (typeof value === 'bigint') return { int64: value.toString() };
  if (typeof value === 'number' && !Number.isFinite(value)) return { double: String(value) };
  return value;
}

/** @throws InferError INVALID_ARGUMENT for anything that `encodeParameters` does not write. */
export function decodeParameters(wire: unknown): Parameters {
  if (wire === undefined) return NO_PARAMETERS;
  if (!isRecord(wire)) throw new InferError('INVALID_ARGUMENT', 'parameters must be an object');
  const entries = Object.entries(wire);
  if (entries.length > MAX_PARAMETERS) {
    throw new InferError('INVALID_ARGUMENT', `${entries.length} parameters, at most ${MAX_PARAMETERS} are allowed`);
  }
  // fromEntries defines own properties, so that a parameter called __proto__ stays a parameter.
  return Object.fromEntries(entries.map(([name, value]) => [name, decodeValue(name, value)]));
}

function decodeValue(name: string, value: unknown): ParameterValue {
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') return value;
  if (isRecord(value)) {
    if (typeof value.int64 === 'string' && INT64.test(value.int64)) return BigInt(value.int64);
    if (typeof value.double === 'string' && NOT_FINITE.includes(value.double)) return Number(value.double);
  }
  throw new InferError(
    'INVALID_ARGUMENT',
    `parameter ${JSON.stringify(name.slice(0, 64))} is neither a text, a number nor a boolean`,
  );
}
