import type { FastifyReply } from 'fastify';
import { InferError } from '../../shared/errors.ts';
import { Call } from '../../shared/infer/call.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import type { CallOptions } from '../facade/facade-context.ts';
import { tenantOf } from './api-keys.ts';

/** Opens the call of an HTTP request: its id, its deadline, and its end when the client hangs up. */
export function openCall(reply: FastifyReply, requestTimeoutMs: number, clock: Clock, options?: CallOptions): Call {
  const arrivalMs = clock.now();
  const call = new Call(reply.request.id, arrivalMs, arrivalMs + requestTimeoutMs, options?.priority ?? 0);
  call.tenant = tenantOf(reply.request);
  reply.header('x-request-id', call.id);
  const response = reply.raw;
  if (response.destroyed) {
    call.cancel(hangUp());
  } else {
    // `close` comes after every answer too; only one that was not finished means that nobody reads it.
    response.once('close', () => {
      if (!response.writableFinished) call.cancel(hangUp());
    });
  }
  return call;
}

function hangUp(): InferError {
  return new InferError('CANCELLED', 'the client closed the connection');
}
