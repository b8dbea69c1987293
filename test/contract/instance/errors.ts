import { expect } from 'vitest';
import { InferError } from '../../../shared/errors.ts';

export async function expectError(promise: Promise<unknown>, code: string, message: RegExp): Promise<void> {
  const error = await errorOf(promise);
  expect({ code: error.code, message: error.message }).toEqual({
    code,
    message: expect.stringMatching(message) as string,
  });
}

export async function errorOf(promise: Promise<unknown>): Promise<InferError> {
  const outcome = await promise.then(
    () => 'no error',
    (error: unknown) => error,
  );
  expect(outcome).toBeInstanceOf(InferError);
  return outcome as InferError;
}
