import type { IncomingHttpHeaders, ServerHttp2Stream } from 'node:http2';
import { constants } from 'node:http2';
import { Metadata, type ServerInterceptingCallInterface, type StatusObject, status } from '@grpc/grpc-js';
import { InferError } from '../../../shared/errors.ts';
import { joinedOf, type Pieces } from '../../../shared/tensor/pieces.ts';
import type { Admission } from '../../service/admission.ts';
import type { WireMessage } from './calls.ts';
import { compressMessage, type ZlibLevel } from './compress-message.ts';
import { messageOf } from './frame-decoder.ts';
import { inflateMessage, type Inflation } from './inflate-message.ts';
import { grpcStatusOf, headerText, trailersOf } from './status.ts';

/** What every call of a server has in common. */
export interface CallLimits {
  readonly maxMessageBytes: number;
  readonly receiveTimeoutMs: number;
  readonly sendTimeoutMs: number;
  readonly admission: Admission;
  readonly now: () => number;
}

/** A stream as it arrives. */
export interface Arrival {
  readonly stream: ServerHttp2Stream;
  readonly headers: IncomingHttpHeaders;
  /** Of the client's messages; kept from grpc-js, which would inflate without counting. */
  readonly encoding: string | undefined;
  /** Whether the client may send more than one message. */
  readonly takesMany: boolean;
}

/** How the answers of a call are compressed. */
export interface AnswerCompression {
  readonly level: ZlibLevel;
  readonly serialize: (answer: unknown) => WireMessage;
}

type Base = ServerInterceptingCallInterface;
type Listener = Parameters<Base['start']>[0];

/** Beside the bytes themselves, of a buffer that holds them. */
const CHUNK_OVERHEAD_BYTES = 256;

/** Smaller answers fit into the kernel's buffers and are gone at once. */
const LARGE_ANSWER_BYTES = 64 * 1024;

/** What a client may still send of a call that is answered. */
const MAX_DROPPED_BYTES = 64 * 1024;

/** The flag of a message lies in front of its length of four bytes, and both in front of what grpc-js hands out. */
const FRAME_HEAD_BYTES = 5;

/**
 * One call between grpc-js and the handlers. It counts as bytes in flight what has been received and not yet been handed
 * over, and what has been answered and not yet been taken; it inflates messages within the same bound; and it ends calls
 * that stall. Everything else passes through.
 */
export class GuardedCall implements ServerInterceptingCallInterface {
  readonly #base: Base;
  readonly #arrival: Arrival;
  readonly #limits: CallLimits;
  readonly #compression: AnswerCompression | undefined;
  #listener: Listener | undefined;
  #receivedBytes = 0;
  #lastMemory: ArrayBufferLike | undefined;
  /** Since when a message is on its way; undefined between messages. */
  #receivingSinceMs: number | undefined;
  #inflation: Inflation | undefined;
  #answerBytes = 0;
  #watchesReader = false;
  #saidEncoding = false;
  #noMoreRequests = false;
  #droppedBytes = 0;

  constructor(base: Base, arrival: Arrival, limits: CallLimits, compression: AnswerCompression | undefined) {
    this.#base = base;
    this.#arrival = arrival;
    this.#limits = limits;
    this.#compression = compression;
  }

  /** Watches what arrives, from now until the stream closes. A stream of requests may stay silent, another call may not. */
  watch(): void {
    const { stream, takesMany } = this.#arrival;
    if (!takesMany) this.#receivingSinceMs = this.#limits.now();
    // Here rather than on `data`, so that what waits in a paused stream is counted as well.
    const push = stream.push.bind(stream);
    stream.push = (chunk: Buffer | null, encoding?: BufferEncoding) => {
      if (chunk !== null && !this.#receive(chunk)) return true;
      return push(chunk, encoding);
    };
    stream.once('close', () => this.#close());
  }

  /** Ends the call before its time. */
  refuse(error: InferError): void {
    this.#release();
    this.#base.sendStatus({
      code: grpcStatusOf(error.code),
      details: headerText(error.message),
      metadata: trailersOf(error),
    });
  }

  /** Takes no more requests from a stream: those in hand are answered, and then it ends as UNAVAILABLE. */
  endRequests(): void {
    if (this.#noMoreRequests || !this.#arrival.takesMany) return;
    this.#noMoreRequests = true;
    this.#listener?.onReceiveHalfClose();
  }

  /** Ends the call when its message has been on its way for too long, and its stream when only the client keeps it. */
  endIfStalled(): void {
    const { stream } = this.#arrival;
    if (stream.writableFinished) {
      stream.close(constants.NGHTTP2_NO_ERROR);
      return;
    }
    const { now, receiveTimeoutMs } = this.#limits;
    if (this.#receivingSinceMs === undefined || now() - this.#receivingSinceMs < receiveTimeoutMs) return;
    this.refuse(new InferError('DEADLINE_EXCEEDED', `the message was not complete within ${receiveTimeoutMs} ms`));
  }

  start(listener: Listener): void {
    this.#listener = listener;
    this.#base.start({
      onReceiveMetadata: (metadata) => listener.onReceiveMetadata(metadata),
      onReceiveMessage: (message: Buffer) => this.#onMessage(message, listener),
      onReceiveHalfClose: () => {
        this.#release();
        if (!this.#noMoreRequests) listener.onReceiveHalfClose();
      },
      onCancel: () => listener.onCancel(),
    });
  }

  sendMetadata(metadata: Metadata): void {
    if (this.#compression && !this.#saidEncoding) {
      this.#saidEncoding = true;
      metadata.set('grpc-encoding', 'gzip');
    }
    this.#base.sendMetadata(metadata);
  }

  sendMessage(message: unknown, done: () => void): void {
    if (this.#compression) this.#sendCompressed(message, this.#compression, done);
    else this.#send(message, done);
  }

  sendStatus(given: Parameters<Base['sendStatus']>[0]): void {
    const cutShort = this.#noMoreRequests && given.code === status.OK;
    this.#base.sendStatus(cutShort ? { ...given, ...SHUTTING_DOWN } : given);
  }

  startRead(): void {
    this.#base.startRead();
  }

  getPeer(): string {
    return this.#base.getPeer();
  }

  getDeadline(): ReturnType<Base['getDeadline']> {
    return this.#base.getDeadline();
  }

  getHost(): string {
    return this.#base.getHost();
  }

  getAuthContext(): ReturnType<Base['getAuthContext']> {
    return this.#base.getAuthContext();
  }

  getConnectionInfo(): ReturnType<Base['getConnectionInfo']> {
    return this.#base.getConnectionInfo();
  }

  getMetricsRecorder(): ReturnType<Base['getMetricsRecorder']> {
    return this.#base.getMetricsRecorder();
  }

  /** Counts a piece of a message; false when it has to be dropped. */
  #receive(chunk: Buffer): boolean {
    const { stream } = this.#arrival;
    if (stream.writableEnded || stream.destroyed) {
      // Answered, and the client still sends: it is told to stop, unless that is over soon. One that is told before it has
      // read its status takes that for a broken stream.
      this.#release();
      this.#droppedBytes += chunk.byteLength;
      if (this.#droppedBytes > MAX_DROPPED_BYTES) stream.close(constants.NGHTTP2_NO_ERROR);
      return false;
    }
    // Pieces of one read from the socket share its memory, and keep all of it.
    const memory = chunk.buffer === this.#lastMemory ? 0 : chunk.buffer.byteLength;
    const byteLength = memory + CHUNK_OVERHEAD_BYTES;
    try {
      this.#limits.admission.reserve(byteLength);
    } catch (error) {
      this.refuse(InferError.from(error));
      return false;
    }
    this.#lastMemory = chunk.buffer;
    this.#receivedBytes += byteLength;
    this.#receivingSinceMs ??= this.#limits.now();
    return true;
  }

  #onMessage(message: Buffer, listener: Listener): void {
    const isCompressed = new Uint8Array(message.buffer, message.byteOffset - FRAME_HEAD_BYTES, 1)[0] === 1;
    if (!isCompressed) {
      this.#handOver(messageOf(message), listener);
      return;
    }
    const { maxMessageBytes: maxBytes, admission } = this.#limits;
    this.#inflation = inflateMessage(joinedOf(messageOf(message)), this.#arrival.encoding, { maxBytes, admission });
    this.#inflation.message.then(
      (inflated) => this.#handOver(inflated, listener),
      (error: unknown) => this.refuse(InferError.from(error)),
    );
  }

  /**
   * The message of a stream is counted from here on by whoever makes a request of it. That of another call waits in
   * grpc-js for the client to end its side, and until then it stays counted and the client's time goes on.
   */
  #handOver(message: Buffer | Pieces, listener: Listener): void {
    if (this.#arrival.takesMany) this.#release(this.#arrival.stream.readableLength);
    else if (this.#inflation) {
      this.#limits.admission.hold(message.length);
      this.#receivedBytes += message.length;
    }
    this.#inflation = undefined;
    if (!this.#noMoreRequests) listener.onReceiveMessage(message);
  }

  #send(message: unknown, done: () => void): void {
    this.#base.sendMessage(message, () => {
      this.#countAnswers();
      done();
    });
    this.#countAnswers();
  }

  #sendCompressed(message: unknown, { level, serialize }: AnswerCompression, done: () => void): void {
    if (!this.#saidEncoding) this.sendMetadata(new Metadata());
    const plain = serialize(message);
    // A stream's handler counts its answers by itself.
    const heldBytes = this.#arrival.takesMany ? 0 : plain.byteLength;
    const { admission } = this.#limits;
    admission.hold(heldBytes);
    compressMessage(plain, level).then(
      (compressed) => {
        admission.release(heldBytes);
        this.#send(compressed, done);
      },
      () => {
        admission.release(heldBytes);
        this.refuse(new InferError('INTERNAL', 'the answer could not be compressed'));
      },
    );
  }

  /** Counts what the client has not taken yet, and ends the call when it takes nothing for too long. */
  #countAnswers(): void {
    const { stream, takesMany } = this.#arrival;
    const { admission, sendTimeoutMs } = this.#limits;
    const waiting = stream.writableLength > LARGE_ANSWER_BYTES ? stream.writableLength : 0;
    if (waiting === this.#answerBytes) return;
    // A stream's handler counts its answers by itself, those that wait for their turn among them.
    if (!takesMany) admission.hold(waiting - this.#answerBytes);
    this.#answerBytes = waiting;
    if (this.#watchesReader) return;
    this.#watchesReader = true;
    // Emitted only when nothing at all has moved in that time.
    stream.setTimeout(sendTimeoutMs);
    stream.on('timeout', () => {
      if (stream.writableLength > 0) stream.close(constants.NGHTTP2_CANCEL);
    });
  }

  /** @param keptBytes what has been received beyond the message that is handed over */
  #release(keptBytes = 0): void {
    const kept = Math.min(keptBytes, this.#receivedBytes);
    this.#limits.admission.release(this.#receivedBytes - kept);
    this.#receivedBytes = kept;
    this.#lastMemory = undefined;
    this.#receivingSinceMs = undefined;
  }

  #close(): void {
    this.#inflation?.cancel();
    this.#release();
    if (!this.#arrival.takesMany) this.#limits.admission.release(this.#answerBytes);
    this.#answerBytes = 0;
  }
}

const SHUTTING_DOWN: Pick<StatusObject, 'code' | 'details'> = {
  code: status.UNAVAILABLE,
  details: 'the server is shutting down',
};
