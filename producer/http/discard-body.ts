import type { IncomingMessage } from 'node:http';

const LINGER_MS = 2_000;

/**
 * After an answer to a request whose body was not read: lets the client finish sending for a moment and throws that away,
 * so that it can read the answer instead of being reset in the middle of its upload; then cuts the connection.
 */
export function discardBody(request: IncomingMessage): void {
  // Without a body there is nothing to wait for, although `complete` may not be set yet.
  const hasBody = request.headers['transfer-encoding'] !== undefined || request.headers['content-length'] !== undefined;
  if (request.complete || request.readableEnded || !hasBody) return;
  const timer = setTimeout(() => request.destroy(), LINGER_MS);
  const stop = (): void => clearTimeout(timer);
  request.once('end', stop);
  request.once('close', stop);
  request.resume();
}
