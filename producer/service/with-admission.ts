import { type ErrorCode, InferError } from '../../shared/errors.ts';
import type { InferFn } from '../../shared/infer/ports.ts';
import type { InferRequest } from '../../shared/infer/request.ts';
import { totalBytesOf } from '../../shared/tensor/tensor.ts';
import type { Admission } from './admission.ts';
import type { Pace } from './pace.ts';

/**
 * Lets a request through while there is room for it, and counts it until it has settled. Measures how fast requests leave,
 * so that one that is refused for want of room, here or further in, is told when to come again.
 */
export function withAdmission(admission: Admission, pace: Pace, next: InferFn): InferFn {
  return (request, call) => {
    const byteLength = inputBytes(request);
    const { model } = request;
    try {
      admission.enter(byteLength);
    } catch (error) {
      return Promise.reject(InferError.from(error));
    }
    pace.enter(model);
    return next(request, call).then(
      (response) => {
        admission.leave(byteLength);
        pace.leave(model, true);
        return response;
      },
      (error: unknown) => {
        admission.leave(byteLength);
        const known = InferError.from(error);
        pace.leave(model, !TURNED_AWAY.includes(known.code));
        throw known.code === 'RESOURCE_EXHAUSTED' ? withRetry(known, model, pace) : known;
      },
    );
  };
}

/** What ends with these has hardly been in anybody's way. */
const TURNED_AWAY: readonly ErrorCode[] = [
  'RESOURCE_EXHAUSTED',
  'INVALID_ARGUMENT',
  'NOT_FOUND',
  'UNAVAILABLE',
  'UNAUTHENTICATED',
  'PERMISSION_DENIED',
];

export function inputBytes(request: InferRequest): number {
  return totalBytesOf(request.inputs);
}

function withRetry(error: InferError, model: string, pace: Pace): InferError {
  if (error.retryAfterMs !== undefined) return error;
  const { message, cause, refusedAt } = error;
  const retryAfterMs = pace.retryAfterMs(1, model);
  return new InferError('RESOURCE_EXHAUSTED', message, { cause, refusedAt, retryAfterMs });
}
