import type { IncomingMessage } from 'node:http';
import { InferError } from '../../shared/errors.ts';
import type { Admission } from '../service/admission.ts';
import { HttpError } from './http-error.ts';

/** Chunks smaller than this on average are joined as they come: a million one-byte buffers would cost 100 MB. */
const SMALL_CHUNK_BYTES = 4096;
const JOIN_EVERY = 1024;

/**
 * Reads a request's body as one buffer and calls back once. What is being read counts as bytes in flight.
 *
 * Fastify's own reader copies even a body that came in one piece, and keeps every chunk of one that came in many.
 * @param maxBytes a longer body is refused with 413, by its Content-Length before anything is read
 */
export function readBody(
  request: IncomingMessage,
  maxBytes: number,
  admission: Admission,
  done: (error: Error | null, body?: Buffer) => void,
): void {
  const announced = Number(request.headers['content-length']);
  if (announced > maxBytes) {
    done(tooLarge(maxBytes));
    return;
  }
  const body = new BodyBuffer();
  const finish = (error: Error | null): void => {
    request.removeListener('data', onData);
    request.removeListener('end', onEnd);
    request.removeListener('error', onError);
    admission.release(body.byteLength);
    if (error) done(error);
    else done(null, body.join());
  };
  const onData = (chunk: Buffer): void => {
    if (body.byteLength + chunk.length > maxBytes) {
      finish(tooLarge(maxBytes));
      return;
    }
    try {
      admission.reserve(chunk.length);
    } catch (error) {
      finish(InferError.from(error));
      return;
    }
    body.push(chunk);
  };
  const onEnd = (): void => finish(null);
  const onError = (): void => finish(new InferError('CANCELLED', 'the client closed the connection'));
  request.on('data', onData);
  request.on('end', onEnd);
  request.on('error', onError);
}

class BodyBuffer {
  byteLength = 0;
  #joined: Buffer[] = [];
  #recent: Buffer[] = [];
  #recentBytes = 0;

  push(chunk: Buffer): void {
    this.#recent.push(chunk);
    this.#recentBytes += chunk.length;
    this.byteLength += chunk.length;
    if (this.#recent.length === JOIN_EVERY) this.#settle();
  }

  join(): Buffer {
    const [first] = this.#recent;
    if (this.#joined.length === 0 && this.#recent.length === 1 && first) return first;
    return Buffer.concat([...this.#joined, ...this.#recent], this.byteLength);
  }

  #settle(): void {
    if (this.#recentBytes < SMALL_CHUNK_BYTES * JOIN_EVERY) this.#joined.push(Buffer.concat(this.#recent));
    else this.#joined = this.#joined.concat(this.#recent);
    this.#recent = [];
    this.#recentBytes = 0;
  }
}

function tooLarge(maxBytes: number): HttpError {
  return new HttpError(413, `the request body is larger than the limit of ${maxBytes} bytes`);
}
