import { InferError } from '../../../shared/errors.ts';
import { IdempotencyConflict } from './job-store.ts';

/** More jobs are open than may be. */
export function tooMany(open: number): InferError {
  const text = `${open} jobs are open already, no more are taken; try again later`;
  return new InferError('RESOURCE_EXHAUSTED', text, { refusedAt: 'entry' });
}

/** A tenant has as many open as it may. */
export function shareUsedUp(tenant: string, open: number): InferError {
  const text = `${open} jobs of ${tenant} are open already, its share; no more are taken, try again later`;
  return new InferError('RESOURCE_EXHAUSTED', text, { refusedAt: 'entry' });
}

/** The tensors of a tenant's open jobs have as many bytes as they may. */
export function bytesUsedUp(tenant: string, open: number, more: number, limit: number): InferError {
  if (more > limit) {
    const text = `the open jobs of ${tenant} may have at most ${limit} bytes, the request has ${more}`;
    return new InferError('INVALID_ARGUMENT', text);
  }
  const text = `the open jobs of ${tenant} have ${open} of ${limit} bytes, no room for ${more} more; try again later`;
  return new InferError('RESOURCE_EXHAUSTED', text, { refusedAt: 'entry' });
}

/** The job of an idempotency key was there and is not any more. */
export function keyJustGone(): InferError {
  return new InferError('UNAVAILABLE', 'the job that the key stands for has just gone, try again');
}

/** An idempotency key came again with something else. */
export function conflict(id: string): IdempotencyConflict {
  const text = `the Idempotency-Key stands for job '${id}', which has another body, model or version`;
  return new IdempotencyConflict('INVALID_ARGUMENT', text);
}
