import { InferError } from '../errors.ts';

/** What a request is told whose time is over, wherever that is noticed. */
export function deadlineError(timeoutMs: number): InferError {
  return new InferError(
    'DEADLINE_EXCEEDED',
    `the request was not answered within its timeout of ${Math.round(timeoutMs)} ms`,
  );
}
