import type { FastifyReply } from 'fastify';

/** Resolves when the client has gone, or has its answer. */
export function hungUpOf({ raw }: FastifyReply): Promise<void> {
  if (raw.destroyed) return Promise.resolve();
  return new Promise((resolve) => {
    raw.once('close', resolve);
  });
}
