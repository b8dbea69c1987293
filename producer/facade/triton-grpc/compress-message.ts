import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { WireMessage } from './calls.ts';
import type { CompressionLevel } from './grpc-settings.ts';

export type ZlibLevel = Exclude<CompressionLevel, 'none'>;

const LEVELS: Record<ZlibLevel, number> = { low: 1, medium: 6, high: 9 };

/** Below this nothing is won. */
const MIN_BYTES = 1024;

const gzipAsync = promisify(gzip);

/** A message that needs no serialising any more. Its frame says whether it is compressed, the call's headers say how. */
export class ReadyMessage implements WireMessage {
  readonly #content: WireMessage;
  readonly #isCompressed: boolean;

  constructor(content: WireMessage, isCompressed: boolean) {
    this.#content = content;
    this.#isCompressed = isCompressed;
  }

  get byteLength(): number {
    return this.#content.byteLength;
  }

  copy(frame: Buffer, offset: number): void {
    frame[0] = this.#isCompressed ? 1 : 0; // the first of the five bytes in front
    this.#content.copy(frame, offset);
  }
}

/** The same message compressed, off this thread; as it is where that does not pay. */
export async function compressMessage(message: WireMessage, level: ZlibLevel): Promise<ReadyMessage> {
  if (message.byteLength < MIN_BYTES) return new ReadyMessage(message, false);
  const plain = Buffer.allocUnsafe(message.byteLength);
  message.copy(plain, 0);
  const packed = await gzipAsync(plain, { level: LEVELS[level] });
  return packed.byteLength < plain.byteLength ? new ReadyMessage(packed, true) : new ReadyMessage(plain, false);
}
