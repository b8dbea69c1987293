import { create, type DescMethod, fromBinary, type MessageShape, toBinary } from '@bufbuild/protobuf';
import type { MethodDefinition, sendUnaryData, ServerUnaryCall, UntypedHandleCall } from '@grpc/grpc-js';
import { InferError } from '../../../shared/errors.ts';
import type { Logger } from '../../../shared/runtime/logger.ts';
import type { Tenants } from '../../service/tenants/tenants.ts';
import type { CallContext, RawStreamCall, RawUnaryCall, UnaryHandler, WireMessage } from './calls.ts';
import { ReadyMessage } from './compress-message.ts';
import type { OpenCall } from './open-call.ts';
import { toGrpcError } from './status.ts';

/** One method as grpc-js takes it: how it is called, and who answers. */
export interface Method {
  readonly definition: MethodDefinition<Buffer, Buffer>;
  readonly handle: UntypedHandleCall;
}

/** What the wrapping of handlers needs. */
export interface MethodContext {
  readonly openCall: OpenCall;
  /** Undefined where calls need no key. */
  readonly tenants: Tenants | undefined;
  readonly logger: Logger;
}

/** A unary method whose messages are decoded and encoded here. */
export function unaryMethod<M extends DescMethod>(
  descriptor: M,
  handler: UnaryHandler<M>,
  { openCall, tenants, logger }: MethodContext,
): Method {
  const handle = (client: ServerUnaryCall<Buffer, Buffer>, done: sendUnaryData<Buffer>): void => {
    const call = openCall(client);
    answerOf(descriptor, handler, client.request, { metadata: client.metadata, call }, tenants).then(
      (bytes) => done(null, bytes),
      (error: unknown) => done(toGrpcError(error, logger, { requestId: call.id, method: descriptor.name })),
    );
  };
  return { definition: definitionOf(descriptor, (bytes: Buffer) => bytes), handle };
}

async function answerOf<M extends DescMethod>(
  descriptor: M,
  handler: UnaryHandler<M>,
  request: Buffer,
  context: CallContext,
  tenants: Tenants | undefined,
): Promise<Buffer> {
  const message = decode(descriptor, request);
  const model = tenants && modelOf(descriptor, message);
  if (model) tenants.assertMayUse(context.call.tenant, model);
  const init = await handler(message, context);
  const { output }: DescMethod = descriptor;
  const bytes = toBinary(output, create(output, init));
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** The model that a message is about; '' or undefined when it is about none or all. */
function modelOf({ name: method }: DescMethod, message: object): string | undefined {
  const { modelName, name } = message as { readonly modelName?: string; readonly name?: string }; // as the protocol has them
  return modelName ?? (/^Model(?!Ready)[A-Z]/.test(method) ? name : undefined);
}

/** A method that reads and writes its messages by itself. */
export function rawMethod<A>(
  descriptor: DescMethod,
  { handle, serialize }: RawUnaryCall<A> | RawStreamCall<A>,
): Method {
  return { definition: definitionOf(descriptor, serialize), handle };
}

function definitionOf(
  { parent, name, methodKind }: DescMethod,
  serialize: (answer: never) => WireMessage,
): MethodDefinition<Buffer, Buffer> {
  const serializer = (answer: unknown): WireMessage =>
    answer instanceof ReadyMessage ? answer : serialize(answer as never); // what the method's own handler answered
  return {
    path: `/${parent.typeName}/${name}`,
    requestStream: methodKind === 'client_streaming' || methodKind === 'bidi_streaming',
    responseStream: methodKind === 'server_streaming' || methodKind === 'bidi_streaming',
    // The gate in front of the handlers passes on bytes, so that a message that cannot be read gets a proper answer.
    requestDeserialize: (bytes) => bytes,
    requestSerialize: (bytes) => bytes,
    responseDeserialize: () => {
      throw new InferError('INTERNAL', 'a server reads no responses');
    },
    responseSerialize: serializer as (answer: unknown) => Buffer, // grpc-js uses of it what WireMessage has
  };
}

/** Far more than any of these methods needs; a message object takes many times the bytes of what it was read from. */
const MAX_CONTROL_BYTES = 4 * 1024 * 1024;

/** Unknown fields would each be kept as an object. */
export const READ_OPTIONS = { readUnknownFields: false };

function decode<M extends DescMethod>({ input, name }: M, bytes: Buffer): MessageShape<M['input']> {
  assertControlSize(name, bytes);
  try {
    return fromBinary(input, bytes, READ_OPTIONS) as MessageShape<M['input']>; // the schema of this very method
  } catch (error) {
    throw new InferError('INVALID_ARGUMENT', `the request of ${name} is not a valid ${input.typeName} message`, {
      cause: error,
    });
  }
}

/** Its message may hold a whole model, as bytes; it is bounded like a request to one. */
const WITHOUT_LIMIT = 'RepositoryModelLoad';

/** @throws InferError INVALID_ARGUMENT for a message that is larger than such a call can need. */
export function assertControlSize(method: string, { length }: Buffer): void {
  if (length <= MAX_CONTROL_BYTES || method === WITHOUT_LIMIT) return;
  throw new InferError(
    'INVALID_ARGUMENT',
    `a request of ${method} has at most ${MAX_CONTROL_BYTES} bytes, got ${length}`,
  );
}
