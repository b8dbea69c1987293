import type { FastifyReply } from 'fastify';
import type { Admission } from '../service/admission.ts';

/** Smaller answers fit into the kernel's buffers and are gone at once. */
const LARGE_BODY_BYTES = 64 * 1024;

/**
 * Sends an answer. A large one counts as bytes in flight until the client has taken it, and a client that makes no
 * progress for `sendTimeoutMs` loses its connection.
 */
export function sendBody(reply: FastifyReply, body: Buffer, sendTimeoutMs: number, admission: Admission): void {
  if (reply.raw.destroyed) return;
  if (body.length > LARGE_BODY_BYTES) {
    admission.hold(body.length);
    reply.raw.once('close', () => admission.release(body.length));
    reply.raw.setTimeout(sendTimeoutMs, () => reply.raw.destroy());
  }
  reply.send(body);
}
