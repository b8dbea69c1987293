import type { IncomingMessage } from 'node:http';
import { createGunzip, createInflate, createInflateRaw, type ZlibOptions } from 'node:zlib';
import { InferError } from '../../shared/errors.ts';
import type { Admission } from '../service/admission.ts';
import { BodyBuffer } from './body-buffer.ts';
import type { ContentCoding } from './content-coding.ts';
import { bodyAborted, bodyTooLarge, type BodyDone } from './read-body.ts';

/** What one decompression holds beside its result: zlib's window and the piece of output that is being filled. */
const INFLATER_BYTES = 128 * 1024;
const OPTIONS: ZlibOptions = { chunkSize: 64 * 1024 };

/**
 * Reads a compressed body as readBody reads a plain one: piece by piece, so that what is held is never more than the
 * limit, whatever the body would become. The work is done on zlib's own threads.
 * @param maxBytes holds for the body before and after decompression
 */
export function inflateBody(
  request: IncomingMessage,
  coding: ContentCoding,
  maxBytes: number,
  admission: Admission,
  done: BodyDone,
): void {
  try {
    if (Number(request.headers['content-length']) > maxBytes) throw bodyTooLarge(maxBytes);
    admission.reserve(INFLATER_BYTES);
  } catch (error) {
    done(error instanceof Error ? error : InferError.from(error));
    return;
  }
  const body = new BodyBuffer({ maxBytes, admission, tooLarge: bodyTooLarge });
  let receivedBytes = 0;
  /** What came before the first two bytes were there, which say what kind of data it is. */
  let head: Buffer | undefined;
  let inflater: ReturnType<typeof createInflater> | undefined;
  let received = false;
  let inflated = false;
  let finished = false;

  const finish = (error: Error | null): void => {
    if (finished) return;
    finished = true;
    request.removeListener('data', onData);
    request.removeListener('end', onEnd);
    request.removeListener('error', onError);
    inflater?.destroy();
    admission.release(INFLATER_BYTES);
    body.release();
    if (error) done(error);
    else done(null, body.join());
  };
  const onOutput = (chunk: Buffer): void => {
    if (finished) return;
    const refusal = body.push(chunk);
    if (refusal) finish(refusal);
  };
  const finishWhenDone = (): void => {
    // zlib's form says where it ends, so its end may come before that of the body.
    if (received) finish(inflater && inflater.bytesWritten < receivedBytes ? bytesLeftOver(coding) : null);
  };
  const onData = (chunk: Buffer): void => {
    receivedBytes += chunk.length;
    if (inflated) {
      finish(bytesLeftOver(coding));
      return;
    }
    // Compressed data may well become nothing at all, so the limit of the output is no limit for it.
    if (receivedBytes > maxBytes) {
      finish(bodyTooLarge(maxBytes));
      return;
    }
    if (!inflater) {
      head = head ? Buffer.concat([head, chunk]) : chunk;
      if (head.length < 2) return;
      inflater = createInflater(coding, head);
      inflater.on('data', onOutput);
      inflater.on('end', () => {
        inflated = true;
        finishWhenDone();
      });
      inflater.on('error', (error: NodeJS.ErrnoException) => finish(inflateError(coding, error)));
      chunk = head;
    }
    if (inflater.write(chunk)) return;
    request.pause();
    inflater.once('drain', () => request.resume());
  };
  const onEnd = (): void => {
    received = true;
    if (!inflater) finish(inflateError(coding, { code: 'Z_BUF_ERROR' }));
    else if (inflated) finishWhenDone();
    else inflater.end();
  };
  const onError = (): void => finish(bodyAborted());
  request.on('data', onData);
  request.on('end', onEnd);
  request.on('error', onError);
}

/**
 * By the data rather than by the header: both forms pass under either name with clients in the wild, and `deflate` means
 * zlib's form by the standard and the bare one to some.
 */
function createInflater(coding: ContentCoding, head: Buffer) {
  const first = head.readUInt8(0);
  const second = head.readUInt8(1);
  if (first === 0x1f && second === 0x8b) return createGunzip(OPTIONS);
  const isZlib = (first & 0x0f) === 8 && ((first << 8) | second) % 31 === 0;
  return isZlib || coding === 'gzip' ? createInflate(OPTIONS) : createInflateRaw(OPTIONS);
}

function bytesLeftOver(coding: ContentCoding): InferError {
  return new InferError('INVALID_ARGUMENT', `the request body goes on behind its ${coding} data`);
}

function inflateError(coding: ContentCoding, { code }: { readonly code?: string | undefined }): InferError {
  const problem = code === 'Z_BUF_ERROR' ? `ends in the middle of its ${coding} data` : `is not valid ${coding} data`;
  return new InferError('INVALID_ARGUMENT', `the request body ${problem} (content-encoding: ${coding})`);
}
