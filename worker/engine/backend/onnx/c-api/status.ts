import type { OrtFailure } from '../ort-error.ts';
import type { OrtFunctions, Pointer, Status } from './functions.ts';

/** A call of ONNX Runtime's that failed, before it is known what the caller was doing. */
export class OrtCallError extends Error {
  override readonly name = 'OrtCallError';
  readonly failure: OrtFailure;

  constructor(failure: OrtFailure) {
    super(failure.text);
    this.failure = failure;
  }
}

/** Throws for a status that is not fine, and releases it. @throws OrtCallError */
export function assertOk(ort: OrtFunctions, status: Status): void {
  if (status !== null) throw new OrtCallError(takeFailure(ort, status));
}

/** Reads and releases a status; it must not be used again. */
export function takeFailure(ort: OrtFunctions, status: Pointer): OrtFailure {
  const failure = { code: ort.GetErrorCode(status), text: ort.GetErrorMessage(status) };
  ort.ReleaseStatus(status);
  return failure;
}

/** What a foreign error says, as a failure without a code. */
export function failureOf(error: unknown): OrtFailure {
  if (error instanceof OrtCallError) return error.failure;
  return { code: undefined, text: error instanceof Error ? error.message : String(error) };
}
