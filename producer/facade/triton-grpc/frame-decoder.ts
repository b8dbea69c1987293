import { Pieces } from '../../../shared/tensor/pieces.ts';
import { alignedBuffer } from '../../http/aligned-buffer.ts';

/** A flag, and the length of the message in four bytes. */
const HEAD_BYTES = 5;

/**
 * Memory for a whole message is taken once this part of it is there, so that a client that announces much and sends
 * little cannot hold much.
 */
const TRUSTED_PART = 1 / 8;

/** A smaller message is joined: that costs less than to look after its pieces. */
const PIECED_BYTES = 64 * 1024;

/** Pieces smaller than this on average are joined as well: each costs memory of its own. */
const SMALL_PIECE_BYTES = 4096;
const MANY_PIECES = 16;

/** The messages that were left in pieces, by the memory of the frames that stand for them. */
const LEFT_IN_PIECES = new WeakMap<ArrayBufferLike, Pieces>();

/** What a message that grpc-js hands on stands for: itself, or the pieces of a large one. */
export function messageOf(handedOn: Buffer): Buffer | Pieces {
  return LEFT_IN_PIECES.get(handedOn.buffer) ?? handedOn;
}

/**
 * Takes the messages of a call out of the bytes that come, in the place of grpc-js' own decoder. That one keeps all pieces
 * of a message and joins them at the end, which holds twice its bytes, lets pieces grow old for the garbage collector, and
 * leaves tensors where they cannot be run. Here a piece is copied to its place at once, and the end of a message is
 * aligned, which is where its last raw tensor ends. Where tensors are taken from pieces, a large message is left in them:
 * grpc-js gets a frame without content, which `messageOf` knows.
 */
export class FrameDecoder {
  readonly #maxMessageBytes: number;
  readonly #inPieces: boolean;
  readonly #head = Buffer.allocUnsafe(HEAD_BYTES);
  #headBytes = 0;
  /** Of the message with its head; set once the head is complete. */
  #frameBytes = 0;
  #received = 0;
  #pieces: Buffer[] = [];
  #frame: Buffer | undefined;

  /** @param inPieces large messages may be left in pieces */
  constructor(maxMessageBytes: number, inPieces = false) {
    this.#maxMessageBytes = maxMessageBytes;
    this.#inPieces = inPieces;
  }

  /** The messages that `data` completes, each with its head in front. @throws Error with the client's text */
  write(data: Buffer): Buffer[] {
    const frames: Buffer[] = [];
    let offset = 0;
    while (offset < data.length) {
      offset += this.#headBytes < HEAD_BYTES ? this.#readHead(data, offset) : this.#readMessage(data, offset);
      if (this.#headBytes === HEAD_BYTES && this.#received === this.#frameBytes) frames.push(this.#take());
    }
    return frames;
  }

  #readHead(data: Buffer, offset: number): number {
    const copied = data.copy(this.#head, this.#headBytes, offset, offset + HEAD_BYTES - this.#headBytes);
    this.#headBytes += copied;
    if (this.#headBytes < HEAD_BYTES) return copied;
    const messageBytes = this.#head.readUInt32BE(1);
    if (messageBytes > this.#maxMessageBytes) {
      throw new Error(`Received message larger than max (${messageBytes} vs ${this.#maxMessageBytes})`);
    }
    this.#frameBytes = HEAD_BYTES + messageBytes;
    this.#received = HEAD_BYTES;
    return copied;
  }

  #readMessage(data: Buffer, offset: number): number {
    const piece = data.subarray(offset, offset + this.#frameBytes - this.#received);
    if (!this.#frame && this.#isToBeJoined(piece)) this.#openFrame();
    if (this.#frame) piece.copy(this.#frame, this.#received);
    else this.#pieces.push(piece);
    this.#received += piece.length;
    return piece.length;
  }

  #isToBeJoined(piece: Buffer): boolean {
    const received = this.#received + piece.length;
    if (received < this.#frameBytes * TRUSTED_PART) return false;
    if (!this.#inPieces || this.#frameBytes < PIECED_BYTES) return true;
    return this.#pieces.length >= MANY_PIECES && received < this.#pieces.length * SMALL_PIECE_BYTES;
  }

  #openFrame(): void {
    const frame = alignedBuffer(this.#frameBytes);
    let offset = this.#head.copy(frame, 0);
    for (const piece of this.#pieces) offset += piece.copy(frame, offset);
    this.#pieces = [];
    this.#frame = frame;
  }

  #take(): Buffer {
    if (this.#frameBytes === HEAD_BYTES) this.#openFrame();
    const frame = this.#frame ?? this.#frameInPieces();
    this.#pieces = [];
    this.#frame = undefined;
    this.#headBytes = 0;
    this.#frameBytes = 0;
    this.#received = 0;
    return frame;
  }

  /** The head alone, in memory of its own. */
  #frameInPieces(): Buffer {
    const frame = Buffer.allocUnsafeSlow(HEAD_BYTES);
    this.#head.copy(frame);
    LEFT_IN_PIECES.set(frame.buffer, new Pieces(this.#pieces, this.#frameBytes - HEAD_BYTES));
    return frame;
  }
}
