import type { InferError } from '../../../shared/errors.ts';
import type { PendingRequest } from '../schedule/pending-request.ts';
import { RowMismatch } from '../batch/split.ts';

/** What becomes of the requests of a failed batch: some run again in smaller batches, some fail. */
export interface Recovery {
  readonly retry: readonly (readonly PendingRequest[])[];
  readonly fail: readonly PendingRequest[];
}

/**
 * One bad request must not fail its companions: a failed batch runs again in two halves, and so on until the guilty one
 * is alone, after at most twice as many runs as there are requests. Less memory is another reason why halves may pass.
 * Where rows cannot be told apart each request runs alone. A run that was stopped, or an instance that is gone, says
 * nothing about the requests, and more runs would not help.
 */
export function planRecovery(members: readonly PendingRequest[], error: InferError): Recovery {
  const live = members.filter((member) => !member.settled);
  const pointless = error.code === 'CANCELLED' || error.code === 'UNAVAILABLE';
  if (members.length === 1 || pointless) return { retry: [], fail: live };
  if (error instanceof RowMismatch) return { retry: live.map((member) => [member]), fail: [] };
  if (live.length < 2) return { retry: live.length === 0 ? [] : [live], fail: [] };
  const half = Math.ceil(live.length / 2);
  return { retry: [live.slice(0, half), live.slice(half)], fail: [] };
}
