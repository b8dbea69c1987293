import { InferError } from '../../shared/errors.ts';
import { httpStatusOf } from '../facade/triton-http/status.ts';

/** A refusal that is about HTTP itself and so has no code of its own: 413, 415. */
export class HttpError extends Error {
  override readonly name = 'HttpError';
  readonly statusCode: number;

  constructor(statusCode: number, message: string) {
    super(message);
    this.statusCode = statusCode;
  }
}

/** What a client is told of an error. */
export interface PublicError {
  readonly status: number;
  readonly message: string;
}

/** The one translation from errors to HTTP. Whatever is not ours to show becomes 500 with a constant text. */
export function toPublicError(error: unknown): PublicError {
  if (error instanceof InferError) return { status: httpStatusOf(error.code), message: error.message };
  if (error instanceof HttpError || isFastifyClientError(error)) {
    return { status: error.statusCode, message: error.message };
  }
  return { status: 500, message: 'internal error' };
}

/** Fastify's own complaints about a request carry a code and a 4xx status; their texts hold nothing internal. */
function isFastifyClientError(error: unknown): error is Error & { statusCode: number } {
  if (!(error instanceof Error) || !('code' in error) || !('statusCode' in error)) return false;
  const { code, statusCode } = error;
  return typeof code === 'string' && code.startsWith('FST_') && typeof statusCode === 'number' && statusCode < 500;
}
