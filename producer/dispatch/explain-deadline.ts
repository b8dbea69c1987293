import { InferError } from '../../shared/errors.ts';
import type { RedisLink } from '../../shared/runtime/redis-link.ts';
import type { PendingRequest } from './pending-requests.ts';
import type { QueueCatalog } from './queue-catalog.ts';

/** A deadline that passed because nobody was there to work is not the model's slowness. Other errors stay what they are. */
export function explainDeadline(
  { request, call }: PendingRequest,
  error: InferError,
  link: RedisLink,
  catalog: QueueCatalog,
  nowMs: number,
): InferError {
  if (error.code !== 'DEADLINE_EXCEEDED') return error;
  const waitedMs = Math.round(nowMs - call.arrivalMs);
  const fault = link.fault();
  if (fault !== undefined) return new InferError('UNAVAILABLE', `${fault} (the request waited ${waitedMs} ms)`);
  if (catalog.served(request.model)) return error;
  return new InferError(
    'UNAVAILABLE',
    `no worker serves model '${request.model}' now: the request waited ${waitedMs} ms in the queue`,
  );
}
