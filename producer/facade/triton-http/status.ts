import type { ErrorCode } from '../../../shared/errors.ts';

/**
 * HTTP status of every error code. Where Triton answers 500 to a client's mistake this is 400. 499 is what proxies write
 * for a client that hung up; nobody is left to read it, but logs and tests are.
 */
const STATUS: Record<ErrorCode, number> = {
  INVALID_ARGUMENT: 400,
  UNAUTHENTICATED: 401,
  PERMISSION_DENIED: 403,
  NOT_FOUND: 404,
  ALREADY_EXISTS: 400,
  UNAVAILABLE: 503,
  RESOURCE_EXHAUSTED: 429,
  DEADLINE_EXCEEDED: 504,
  CANCELLED: 499,
  UNIMPLEMENTED: 501,
  INTERNAL: 500,
};

export function httpStatusOf(code: ErrorCode): number {
  return STATUS[code];
}
