import { InferError } from '../../shared/errors.ts';
import { httpStatusOf } from '../facade/triton-http/status.ts';

/** A refusal that is about HTTP itself and so has no code of its own: 413, 415. */
export class HttpError extends Error {
  override readonly name = 'HttpError';
  readonly statusCode: number;
  /** Headers that belong to the answer, in lower case. */
  readonly headers: Readonly<Record<string, string>>;

  constructor(statusCode: number, message: string, headers: Readonly<Record<string, string>> = {}) {
    super(message);
    this.statusCode = statusCode;
    this.headers = headers;
  }
}

/** Fastify's own texts for these repeat the whole path. */
const PATH_ERRORS: Readonly<Record<string, string>> = {
  FST_ERR_BAD_URL: 'the path of the request is not a valid URL',
  FST_ERR_MAX_PARAM_LENGTH: 'a name in the path of the request is too long',
};

/** What a client is told of an error. */
export interface PublicError {
  readonly status: number;
  readonly message: string;
}

/** The one translation from errors to HTTP. Whatever is not ours to show becomes 500 with a constant text. */
export function toPublicError(error: unknown): PublicError {
  if (error instanceof InferError) return { status: httpStatusOf(error.code), message: error.message };
  if (error instanceof HttpError) return { status: error.statusCode, message: error.message };
  if (isFastifyClientError(error)) {
    return { status: error.statusCode, message: PATH_ERRORS[error.code] ?? error.message };
  }
  return { status: 500, message: 'internal error' };
}

/** Fastify's own complaints about a request carry a code and a 4xx status; their texts hold nothing internal. */
function isFastifyClientError(error: unknown): error is Error & { code: string; statusCode: number } {
  if (!(error instanceof Error) || !('code' in error) || !('statusCode' in error)) return false;
  const { code, statusCode } = error;
  return typeof code === 'string' && code.startsWith('FST_') && typeof statusCode === 'number' && statusCode < 500;
}
