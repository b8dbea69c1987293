/** The closed list of what can go wrong. Every protocol has one table from these to its own status. */
export const ERROR_CODES = [
  'INVALID_ARGUMENT',
  'UNAUTHENTICATED',
  'PERMISSION_DENIED',
  'NOT_FOUND',
  'ALREADY_EXISTS',
  'UNAVAILABLE',
  'RESOURCE_EXHAUSTED',
  'DEADLINE_EXCEEDED',
  'CANCELLED',
  'UNIMPLEMENTED',
  'INTERNAL',
] as const;

export type ErrorCode = (typeof ERROR_CODES)[number];

export function isErrorCode(value: unknown): value is ErrorCode {
  return (ERROR_CODES as readonly unknown[]).includes(value);
}

/**
 * Where a request was turned away for want of room or time, and not for what it is: before it was taken in, which no
 * statistics count, or while it waited, which they count as rejected.
 */
export type RefusedAt = 'entry' | 'queue';

export function isRefusedAt(value: unknown): value is RefusedAt {
  return value === 'entry' || value === 'queue';
}

export interface InferErrorOptions {
  readonly cause?: unknown;
  readonly refusedAt?: RefusedAt | undefined;
  readonly retryAfterMs?: number | undefined;
}

/**
 * The only error that crosses a layer. `message` is shown to the client, so it says what was wrong, what was expected
 * and what was given, and never holds a path, a key or a stack; `cause` is for the log alone.
 */
export class InferError extends Error {
  override readonly name = 'InferError';
  readonly code: ErrorCode;
  readonly refusedAt: RefusedAt | undefined;
  /** When a client that was refused for want of room may come again; undefined where nobody knows. */
  readonly retryAfterMs: number | undefined;

  constructor(code: ErrorCode, message: string, options?: InferErrorOptions) {
    super(message, options);
    this.code = code;
    this.refusedAt = options?.refusedAt;
    this.retryAfterMs = options?.retryAfterMs;
  }

  /** The single door for foreign errors: anything that is not an InferError becomes INTERNAL, with `what` as its text. */
  static from(error: unknown, what = 'internal error'): InferError {
    return error instanceof InferError ? error : new InferError('INTERNAL', what, { cause: error });
  }
}
