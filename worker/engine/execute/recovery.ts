import type { InferError } from '../../../shared/errors.ts';
import type { PendingRequest } from '../schedule/pending-request.ts';
import { RowMismatch } from '../batch/split.ts';
import type { EmptyRow } from './batch.ts';

/** What becomes of the requests of a failed batch: some run again in smaller batches, some fail. */
export interface Recovery {
  readonly retry: readonly (readonly PendingRequest[])[];
  readonly fail: readonly PendingRequest[];
}

/**
 * One bad request must not fail its companions: a failed batch runs again in two halves, and so on until the guilty one
 * is alone, after at most twice as many runs as there are requests. Less memory is another reason why halves may pass.
 * Where rows cannot be told apart each request runs alone, and so it does after a run that was padded where nothing is any
 * more: even one that was alone is another run then. A run that was stopped, or an instance that is gone, says
 * nothing about the requests, and more runs would not help.
 * @param unpadded the run was padded or filled up, and the next one will not be
 * @param emptyRow given where each request keeps its row: in each part those of the others are empty
 */
export function planRecovery(
  members: readonly PendingRequest[],
  error: InferError,
  unpadded: boolean,
  emptyRow?: EmptyRow,
): Recovery {
  const requests = members.filter((member) => !member.empty);
  const live = requests.filter((member) => !member.settled);
  const pointless = error.code === 'CANCELLED' || error.code === 'UNAVAILABLE';
  const again = unpadded && error instanceof RowMismatch;
  if ((requests.length === 1 && !again) || pointless) return { retry: [], fail: live };
  if (error instanceof RowMismatch || unpadded) return { retry: live.map((member) => [member]), fail: [] };
  const half = live.length < 2 ? live.length : Math.ceil(live.length / 2);
  const parts = [live.slice(0, half), live.slice(half)].filter((part) => part.length > 0);
  return { retry: emptyRow ? parts.map((part) => inTheirRows(members, part, emptyRow)) : parts, fail: [] };
}

function inTheirRows(
  members: readonly PendingRequest[],
  part: readonly PendingRequest[],
  emptyRow: EmptyRow,
): PendingRequest[] {
  return members.map((member) => (member.empty || part.includes(member) ? member : emptyRow()));
}
