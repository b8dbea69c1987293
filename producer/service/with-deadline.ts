import { InferError } from '../../shared/errors.ts';
import { deadlineError } from '../../shared/infer/deadline-error.ts';
import type { InferFn } from '../../shared/infer/ports.ts';
import type { InferResponse } from '../../shared/infer/response.ts';
import type { Clock } from '../../shared/runtime/clock.ts';

/** The longest time that setTimeout can count, in ms; a longer one would fire at once. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/**
 * Cancels a call when its deadline comes, and settles the caller's promise as soon as the call is cancelled for any
 * reason, whatever the layers below do.
 */
export function withDeadline(clock: Clock, next: InferFn): InferFn {
  return (request, call) => {
    const leftMs = call.deadlineMs - clock.now();
    if (leftMs <= 0) call.cancel(deadlineError(call.deadlineMs - call.arrivalMs));
    if (call.error) return Promise.reject(call.error);
    return new Promise<InferResponse>((resolve, reject) => {
      const stopTimer =
        leftMs <= MAX_TIMER_MS
          ? clock.setTimer(() => call.cancel(deadlineError(call.deadlineMs - call.arrivalMs)), leftMs)
          : undefined;
      // Not at once: a layer below that knows a better reason (no worker has come) answers in the same turn, and the
      // first answer counts.
      call.onCancel((error) => {
        stopTimer?.();
        setImmediate(reject, error);
      });
      next(request, call).then(
        (response) => {
          stopTimer?.();
          resolve(response);
        },
        (error: unknown) => {
          stopTimer?.();
          reject(InferError.from(error));
        },
      );
    });
  };
}
