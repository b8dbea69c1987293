import { InferError } from '../../shared/errors.ts';

export type JsonObject = Readonly<Record<string, unknown>>;

/** @throws InferError INVALID_ARGUMENT that names the file. */
export function parseJsonObject(text: string, file: string): JsonObject {
  let value: unknown;
  try {
    value = JSON.parse(text.replace(/^\uFEFF/, ''));
  } catch (error) {
    throw new InferError('INVALID_ARGUMENT', `${file} is not valid JSON`, { cause: error });
  }
  if (isJsonObject(value)) return value;
  throw new InferError('INVALID_ARGUMENT', `${file} must be a JSON object`);
}

export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
