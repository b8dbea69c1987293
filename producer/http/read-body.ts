import type { IncomingMessage } from 'node:http';
import { InferError } from '../../shared/errors.ts';
import type { Pieces } from '../../shared/tensor/pieces.ts';
import type { Admission } from '../service/admission.ts';
import { BodyBuffer } from './body-buffer.ts';
import { HttpError } from './http-error.ts';

/** Called once, with the error or the body. */
export type BodyDone = (error: Error | null, body?: Buffer | Pieces) => void;

/**
 * Reads a request's body and calls back once. What is being read counts as bytes in flight.
 *
 * Fastify's own reader copies even a body that came in one piece, and keeps every chunk of one that came in many.
 * @param maxBytes a longer body is refused with 413, by its Content-Length before anything is read
 * @param inPieces the body may be given as Pieces, which saves a copy; else it is one buffer
 */
export function readBody(
  request: IncomingMessage,
  maxBytes: number,
  admission: Admission,
  done: BodyDone,
  inPieces = false,
): void {
  const announced = Number(request.headers['content-length']);
  if (announced > maxBytes) {
    done(bodyTooLarge(maxBytes));
    return;
  }
  const length = Number.isSafeInteger(announced) ? { expectedBytes: announced } : {};
  const body = new BodyBuffer({ maxBytes, admission, tooLarge: bodyTooLarge, inPieces, ...length });
  const finish = (error: Error | null): void => {
    request.removeListener('data', onData);
    request.removeListener('end', onEnd);
    request.removeListener('error', onError);
    body.release();
    if (error) done(error);
    else done(null, inPieces ? body.pieces() : body.join());
  };
  const onData = (chunk: Buffer): void => {
    const refusal = body.push(chunk);
    if (refusal) finish(refusal);
  };
  const onEnd = (): void => finish(null);
  const onError = (): void => finish(bodyAborted());
  request.on('data', onData);
  request.on('end', onEnd);
  request.on('error', onError);
}

export function bodyTooLarge(maxBytes: number): HttpError {
  return new HttpError(413, `the request body is larger than the limit of ${maxBytes} bytes`);
}

export function bodyAborted(): InferError {
  return new InferError('CANCELLED', 'the client closed the connection');
}
