import { Metadata, type ServerErrorResponse, status } from '@grpc/grpc-js';
import { type ErrorCode, InferError } from '../../../shared/errors.ts';
import type { Logger } from '../../../shared/runtime/logger.ts';

/**
 * gRPC status of every error code. A full queue is UNAVAILABLE in Triton's words; ours says which of the two it is, and
 * clients repeat both.
 */
const STATUS: Record<ErrorCode, status> = {
  INVALID_ARGUMENT: status.INVALID_ARGUMENT,
  UNAUTHENTICATED: status.UNAUTHENTICATED,
  PERMISSION_DENIED: status.PERMISSION_DENIED,
  NOT_FOUND: status.NOT_FOUND,
  ALREADY_EXISTS: status.ALREADY_EXISTS,
  UNAVAILABLE: status.UNAVAILABLE,
  RESOURCE_EXHAUSTED: status.RESOURCE_EXHAUSTED,
  DEADLINE_EXCEEDED: status.DEADLINE_EXCEEDED,
  CANCELLED: status.CANCELLED,
  UNIMPLEMENTED: status.UNIMPLEMENTED,
  INTERNAL: status.INTERNAL,
};

/** Texts travel in a header, percent-encoded; a client's whole header block may be as small as 8 KiB. */
const MAX_DETAILS_LENGTH = 1500;

export function grpcStatusOf(code: ErrorCode): status {
  return STATUS[code];
}

/**
 * What a call ends with after an error: code and text of an InferError; anything else is logged and shown as an internal
 * error.
 */
export function toGrpcError(error: unknown, logger: Logger, fields: object): ServerErrorResponse {
  const known = InferError.from(error);
  if (known.code === 'INTERNAL') logInternalError(known, logger, fields);
  const text = error instanceof InferError ? known.message : 'internal error';
  return Object.assign(new Error(text), {
    code: STATUS[known.code],
    details: headerText(text),
    metadata: trailersOf(known),
  });
}

/** When a client that was refused for load may come again, as clients that repeat calls by themselves read it. */
const PUSHBACK = 'grpc-retry-pushback-ms';

/** What an error ends a call with beside its status. */
export function trailersOf({ retryAfterMs }: InferError): Metadata {
  const metadata = new Metadata();
  if (retryAfterMs !== undefined) metadata.set(PUSHBACK, String(Math.ceil(retryAfterMs)));
  return metadata;
}

/** Text that can be percent-encoded, which half a surrogate pair cannot. */
export function headerText(text: string): string {
  const short = text.length > MAX_DETAILS_LENGTH ? `${text.slice(0, MAX_DETAILS_LENGTH)}…` : text;
  return short.replace(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, '\ufffd');
}

function logInternalError(error: InferError, logger: Logger, fields: object): void {
  const { cause } = error;
  logger.error(
    { ...fields, error: error.message, cause: cause instanceof Error ? cause.stack : cause },
    'request failed',
  );
}
