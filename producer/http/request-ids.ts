import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';

/** Printable ASCII without spaces: harmless in a header, a log line and an error text. */
const SANE_ID = /^[\x21-\x7e]{1,128}$/;

/**
 * Gives every HTTP request an id: the client's own from its x-request-id header when it is sane, else one that is unique
 * among all processes without costing a random number each.
 */
export function createRequestIds(): (request: Pick<IncomingMessage, 'headers'>) => string {
  const prefix = randomBytes(6).toString('hex');
  let count = 0;
  return (request) => {
    const own = request.headers['x-request-id'];
    if (typeof own === 'string' && SANE_ID.test(own)) return own;
    return `${prefix}-${(++count).toString(36)}`;
  };
}
