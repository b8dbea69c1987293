import type { FastifyReply } from 'fastify';
import { InferError } from '../../../shared/errors.ts';
import type { Logger } from '../../../shared/runtime/logger.ts';
import { discardBody } from '../../http/discard-body.ts';
import { retryAfterOf } from '../../http/error-reply.ts';
import { HttpError, toPublicError } from '../../http/http-error.ts';

/** An error that knows which key of the body it is about. */
export class ParameterError extends InferError {
  readonly parameter: string;

  constructor(parameter: string, message: string) {
    super('INVALID_ARGUMENT', message);
    this.parameter = parameter;
  }
}

/** What the official API calls these. */
const CODES: Readonly<Record<number, string>> = { 401: 'invalid_api_key', 404: 'model_not_found' };

/** Errors in OpenAI's form; the official clients turn them into exceptions by status, with this text. */
export function sendOpenAiError(reply: FastifyReply, error: unknown, logger: Logger): void {
  const { status, message } = toPublicError(error);
  if (status === 500) {
    const cause = error instanceof InferError ? error.cause : error;
    const stack = cause instanceof Error ? cause.stack : cause;
    logger.error({ requestId: reply.request.id, error: message, cause: stack }, 'request failed');
  }
  const body = {
    error: {
      message,
      type: status >= 500 ? 'server_error' : status === 429 ? 'rate_limit_error' : 'invalid_request_error',
      param: error instanceof ParameterError ? error.parameter : null,
      code: CODES[status] ?? null,
    },
  };
  if (reply.sent || reply.raw.destroyed) return;
  reply.code(status).header('content-type', 'application/json').header('x-request-id', reply.request.id);
  if (error instanceof HttpError) reply.headers(error.headers);
  if (status === 429) reply.header('retry-after', retryAfterOf(error));
  // Fastify sets this when a body was not read; `discardBody` ends such a connection more gently.
  reply.removeHeader('connection');
  reply.send(JSON.stringify(body));
  discardBody(reply.request.raw);
}
