import { constants, deflate, gzip, type ZlibOptions } from 'node:zlib';
import { InferError } from '../../shared/errors.ts';
import type { Admission } from '../service/admission.ts';
import type { ContentCoding } from './content-coding.ts';

/** Tensors hardly shrink further at higher levels, which take several times the CPU. */
const OPTIONS: ZlibOptions = { level: constants.Z_BEST_SPEED };

/** Compresses an answer on zlib's own threads. The plain one counts as bytes in flight meanwhile. */
export function compressBody(
  body: Buffer,
  coding: ContentCoding,
  admission: Admission,
  done: (error: InferError | null, packed: Buffer) => void,
): void {
  admission.hold(body.length);
  (coding === 'gzip' ? gzip : deflate)(body, OPTIONS, (error, packed) => {
    admission.release(body.length);
    done(error ? InferError.from(error, 'the answer could not be compressed') : null, packed);
  });
}
