import { InferError } from '../../../shared/errors.ts';
import { IdempotencyConflict } from './job-store.ts';

/** More jobs are open than may be. */
export function tooMany(open: number): InferError {
  const text = `${open} jobs are open already, no more are taken; try again later`;
  return new InferError('RESOURCE_EXHAUSTED', text, { refusedAt: 'entry' });
}

/** An idempotency key came again with something else. */
export function conflict(id: string): IdempotencyConflict {
  const text = `the Idempotency-Key stands for job '${id}', which has another body, model or version`;
  return new IdempotencyConflict('INVALID_ARGUMENT', text);
}
