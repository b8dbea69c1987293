import { InferError } from '../../../shared/errors.ts';
import { shownValue } from '../../../shared/tensor/text.ts';

const MAX_NAME_LENGTH = 1024;

/** @throws InferError INVALID_ARGUMENT for anything but a JSON object. */
export function asObject(what: string, value: unknown): Record<string, unknown> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
    return value as Record<string, unknown>; // an object out of a JSON parser
  }
  throw new InferError('INVALID_ARGUMENT', `${what} must be an object, got ${shownValue(value)}`);
}

/** @throws InferError INVALID_ARGUMENT for anything but an array of at most `maxLength` elements. */
export function asArray(what: string, value: unknown, maxLength: number): readonly unknown[] {
  if (!Array.isArray(value)) {
    throw new InferError('INVALID_ARGUMENT', `${what} must be an array, got ${shownValue(value)}`);
  }
  if (value.length > maxLength) {
    throw new InferError('INVALID_ARGUMENT', `${what} has ${value.length} entries, at most ${maxLength} are allowed`);
  }
  return value;
}

/** @throws InferError INVALID_ARGUMENT for anything but a name. */
export function asName(what: string, value: unknown): string {
  if (typeof value === 'string' && value !== '' && value.length <= MAX_NAME_LENGTH) return value;
  throw new InferError(
    'INVALID_ARGUMENT',
    `${what} must be a string of 1 to ${MAX_NAME_LENGTH} characters, got ${shownValue(value)}`,
  );
}

/** A whole number from 0 up. @throws InferError INVALID_ARGUMENT for anything else. */
export function asCount(what: string, value: unknown): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value;
  throw new InferError('INVALID_ARGUMENT', `${what} must be a whole number from 0 up, got ${shownValue(value)}`);
}
