/** What went wrong with a call: what the server said, or why it said nothing. */
export class MillraceError extends Error {
  override readonly name = 'MillraceError';
  /** The HTTP status of the answer; 0 when there was none. */
  readonly status: number;
  /** How long the server asks to wait before the next try, in ms; undefined where it does not say. */
  readonly retryAfterMs: number | undefined;
  /** The state of a job that is over and has no result; undefined for every other error. */
  readonly jobState: string | undefined;

  constructor(
    message: string,
    status = 0,
    options: { cause?: unknown; retryAfterMs?: number | undefined; jobState?: string | undefined } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.status = status;
    this.retryAfterMs = options.retryAfterMs;
    this.jobState = options.jobState;
  }
}
