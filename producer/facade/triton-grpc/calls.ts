import type { DescMethod, DescService, MessageInitShape, MessageShape } from '@bufbuild/protobuf';
import type { handleBidiStreamingCall, handleUnaryCall, Metadata } from '@grpc/grpc-js';
import type { Call } from '../../../shared/infer/call.ts';
import type { Pieces } from '../../../shared/tensor/pieces.ts';

/** What a unary handler may know beside its message. */
export interface CallContext {
  readonly metadata: Metadata;
  /** Ends with the client's cancellation or deadline; its id is in the log. */
  readonly call: Call;
}

/**
 * Answers one message of a method with one. Throws an InferError to refuse it; every other error is logged and shown as
 * an internal one.
 */
export type UnaryHandler<M extends DescMethod> = (
  message: MessageShape<M['input']>,
  context: CallContext,
) => MessageInitShape<M['output']> | Promise<MessageInitShape<M['output']>>;

/** The handlers of a service's unary methods, by their names in the generated code. */
export type UnaryCalls<S extends DescService> = {
  readonly [K in keyof S['method'] as S['method'][K]['methodKind'] extends 'unary' ? K : never]: UnaryHandler<
    S['method'][K]
  >;
};

/**
 * What goes on the wire as one message: a Buffer, or anything that can write itself once, straight behind the five bytes
 * of the frame's head, which saves a copy. (grpc-js asks for `byteLength` and calls `copy(frame, 5)`, nothing else.)
 */
export interface WireMessage {
  readonly byteLength: number;
  copy(frame: Buffer, offset: number): void;
}

/**
 * A unary method that reads and writes its messages by itself. Requests arrive as the bytes of one message, already
 * inflated, in memory of their own: views on them stay valid. Large ones may be in pieces.
 */
export interface RawUnaryCall<Answer> {
  readonly handle: handleUnaryCall<Buffer | Pieces, Answer>;
  /** Called once for each answer, in the same turn as the callback. */
  readonly serialize: (answer: Answer) => WireMessage;
}

/** The same for a method whose both sides are streams. The call is a Duplex of Buffer in and Answer out. */
export interface RawStreamCall<Answer> {
  readonly handle: handleBidiStreamingCall<Buffer | Pieces, Answer>;
  readonly serialize: (answer: Answer) => WireMessage;
}

/** What infer-calls.ts brings. */
export interface InferCalls<UnaryAnswer = WireMessage, StreamAnswer = WireMessage> {
  readonly modelInfer: RawUnaryCall<UnaryAnswer>;
  readonly modelStreamInfer: RawStreamCall<StreamAnswer>;
}
