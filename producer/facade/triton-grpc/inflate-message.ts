import { createGunzip, createInflate, type Gunzip, type Inflate } from 'node:zlib';
import { InferError } from '../../../shared/errors.ts';
import { shownText } from '../../../shared/tensor/text.ts';
import { BodyBuffer } from '../../http/body-buffer.ts';
import type { Admission } from '../../service/admission.ts';

export interface InflateLimits {
  readonly maxBytes: number;
  readonly admission: Admission;
}

/** An inflation under way. */
export interface Inflation {
  /** Settles in any case: with the message, or with an InferError that says why there is none. */
  readonly message: Promise<Buffer>;
  /** Nobody wants the message any more. */
  cancel(): void;
}

/**
 * Inflates one compressed message. What comes out counts as bytes in flight while it grows, so that a few bytes that
 * become many cost no more than the many would have.
 * @param encoding the call's `grpc-encoding`
 */
export function inflateMessage(
  compressed: Uint8Array,
  encoding: string | undefined,
  { maxBytes, admission }: InflateLimits,
): Inflation {
  const inflater = createInflater(encoding);
  if (inflater instanceof InferError) return { message: Promise.reject(inflater), cancel: () => undefined };
  const body = new BodyBuffer({ maxBytes, admission, tooLarge });
  const message = new Promise<Buffer>((resolve, reject) => {
    inflater.on('data', (part: Buffer) => {
      const refusal = body.push(part);
      if (refusal) inflater.destroy(refusal);
    });
    inflater.once('error', (error) => reject(error instanceof InferError ? error : unreadable(encoding, error)));
    inflater.once('end', () => resolve(body.join()));
    inflater.once('close', () => {
      body.release();
      reject(new InferError('CANCELLED', 'the client cancelled the call')); // when neither came before
    });
  });
  inflater.end(compressed);
  return { message, cancel: () => inflater.destroy() };
}

function createInflater(encoding: string | undefined): Gunzip | Inflate | InferError {
  switch (encoding) {
    case 'gzip':
      return createGunzip();
    case 'deflate':
      return createInflate();
    case undefined:
    case 'identity':
      return new InferError('INVALID_ARGUMENT', 'a message is marked as compressed, but the call has no grpc-encoding');
    default:
      return new InferError(
        'UNIMPLEMENTED',
        `grpc-encoding ${shownText(encoding)} is not supported, expected gzip, deflate or identity`,
      );
  }
}

function tooLarge(maxBytes: number): InferError {
  return new InferError('RESOURCE_EXHAUSTED', `the message inflates to more than the limit of ${maxBytes} bytes`);
}

function unreadable(encoding: string | undefined, error: Error): InferError {
  return new InferError('INVALID_ARGUMENT', `the message is not valid ${encoding ?? ''} data: ${error.message}`);
}
