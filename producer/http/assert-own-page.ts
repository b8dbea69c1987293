import type { FastifyRequest } from 'fastify';
import { HttpError } from './http-error.ts';
import { isForeign, isRebound } from './request-origin.ts';

/**
 * Any page that is open on this machine can post to a server on loopback; only our own may change something.
 * @throws HttpError 403
 */
export function assertOwnPage({ headers, socket }: Pick<FastifyRequest, 'headers' | 'socket'>): void {
  const { origin, host } = headers;
  const from = { origin, host, fetchSite: headers['sec-fetch-site']?.toString() };
  if (isForeign(from) || isRebound(from, socket.localAddress)) {
    throw new HttpError(403, 'the request comes from another site');
  }
}
