import { InferError } from '../../../shared/errors.ts';
import { shownValue } from '../../../shared/tensor/text.ts';

const MAX_ID_LENGTH = 1024;

/** The client's own id; '' when there is none. @throws InferError INVALID_ARGUMENT */
export function decodeId(value: unknown): string {
  if (value === undefined) return '';
  if (typeof value === 'string' && value.length <= MAX_ID_LENGTH) return value;
  throw new InferError(
    'INVALID_ARGUMENT',
    `id must be a string of at most ${MAX_ID_LENGTH} characters, got ${shownValue(value)}`,
  );
}

/** Puts the client's own id in front of an error's text, as Triton does, so that the client can match its logs. */
export function withRequestId(error: unknown, id: string): unknown {
  if (id === '' || !(error instanceof InferError)) return error;
  return new InferError(error.code, `[request id: ${id}] ${error.message}`, { cause: error.cause });
}
