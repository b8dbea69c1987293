import type { Metadata, ServerUnaryCall } from '@grpc/grpc-js';
import { InferError } from '../../../shared/errors.ts';
import { Call } from '../../../shared/infer/call.ts';
import { createRequestIds } from '../../http/request-ids.ts';
import type { Services } from '../../service/services.ts';
import type { Tenants } from '../../service/tenants/tenants.ts';

/** The part of a grpc-js call that says when it must be over and whether the client still waits. */
export interface ClientCall extends Pick<ServerUnaryCall<unknown, unknown>, 'cancelled' | 'metadata' | 'getDeadline'> {
  once(event: 'cancelled', listener: () => void): unknown;
}

/** @param priority Triton's, 0 = default, 1 = most urgent */
export type OpenCall = (client: ClientCall, priority?: number) => Call;

/**
 * Opens calls for gRPC requests: an id (the client's own `x-request-id` when it is sane), a deadline, and cancellation
 * when the client gives up. grpc-js tells of the end of every call as a cancellation; of a call that was answered it
 * changes nothing any more.
 */
export function createCallOpener({
  requestTimeoutMs,
  clock,
  tenants,
}: Pick<Services, 'requestTimeoutMs' | 'clock' | 'tenants'>): OpenCall {
  const idOf = createRequestIds();
  return (client, priority = 0) => {
    const arrivalMs = clock.now();
    const leftMs = Number(client.getDeadline()) - Date.now();
    const timeoutMs = Math.min(requestTimeoutMs, leftMs);
    const [ownId] = client.metadata.get('x-request-id');
    const id = idOf({ headers: typeof ownId === 'string' ? { 'x-request-id': ownId } : {} });
    const call = new Call(id, arrivalMs, arrivalMs + timeoutMs, priority);
    if (tenants) call.tenant = tenantNameOf(client.metadata, tenants);
    if (client.cancelled) call.cancel(givenUp(false));
    else client.once('cancelled', () => call.cancel(givenUp(clock.now() >= arrivalMs + leftMs)));
    return call;
  };
}

/** '' for a call without a known key, which the gate has refused unless it may come without. */
export function tenantNameOf(metadata: Metadata, tenants: Tenants): string {
  try {
    return tenants.identify((name) => metadata.get(name)[0]?.toString());
  } catch {
    return '';
  }
}

function givenUp(late: boolean): InferError {
  return late
    ? new InferError('DEADLINE_EXCEEDED', 'the deadline of the call has passed')
    : new InferError('CANCELLED', 'the client cancelled the call');
}
