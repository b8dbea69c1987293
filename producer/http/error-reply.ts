import type { FastifyReply } from 'fastify';
import { InferError } from '../../shared/errors.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { discardBody } from './discard-body.ts';
import { HttpError, toPublicError } from './http-error.ts';

/** Answers a request with an error: one JSON object with one key, as Triton's clients read it. */
export function sendError(reply: FastifyReply, error: unknown, logger: Logger): void {
  send(reply, error, logger, 'application/json', (json) => json);
}

/** The same as one server-sent event, for clients that read a stream. */
export function sendErrorEvent(reply: FastifyReply, error: unknown, logger: Logger): void {
  send(reply, error, logger, EVENT_STREAM, toEvent);
}

export const EVENT_STREAM = 'text/event-stream; charset=utf-8';

/** @param json without line breaks */
export function toEvent(json: string): string {
  return `data: ${json}\n\n`;
}

function send(
  reply: FastifyReply,
  error: unknown,
  logger: Logger,
  contentType: string,
  wrap: (json: string) => string,
): void {
  const { status, message } = toPublicError(error);
  if (status === 500) logInternalError(reply, error, logger);
  if (reply.sent || reply.raw.destroyed) return;
  reply.code(status);
  reply.header('content-type', contentType);
  reply.header('x-request-id', reply.request.id);
  if (error instanceof HttpError) reply.headers(error.headers);
  if (status === 429) reply.header('retry-after', retryAfterOf(error));
  // Fastify sets this when a body was not read; `discardBody` ends such a connection more gently.
  reply.removeHeader('connection');
  reply.send(wrap(JSON.stringify({ error: message })));
  discardBody(reply.request.raw);
}

/** When a client that was refused for load may come again, in whole seconds; one where nobody knows. */
export function retryAfterOf(error: unknown): string {
  const retryAfterMs = error instanceof InferError ? error.retryAfterMs : undefined;
  return String(Math.max(1, Math.ceil((retryAfterMs ?? 0) / 1000)));
}

function logInternalError(reply: FastifyReply, error: unknown, logger: Logger): void {
  const cause = error instanceof InferError ? error.cause : error;
  logger.error(
    {
      requestId: reply.request.id,
      route: reply.request.routeOptions.url,
      error: error instanceof Error ? error.message : String(error),
      cause: cause instanceof Error ? cause.stack : cause,
    },
    'request failed',
  );
}
