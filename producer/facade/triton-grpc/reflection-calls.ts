import {
  create,
  type DescFile,
  type DescMessage,
  type DescService,
  fromBinary,
  type MessageInitShape,
  toBinary,
} from '@bufbuild/protobuf';
import { FileDescriptorProtoSchema } from '@bufbuild/protobuf/wkt';
import { type ServerDuplexStream, status } from '@grpc/grpc-js';
import { InferError } from '../../../shared/errors.ts';
import type { Logger } from '../../../shared/runtime/logger.ts';
import {
  type ServerReflectionRequest,
  ServerReflectionRequestSchema,
  type ServerReflectionResponseSchema as ResponseSchema,
  ServerReflectionResponseSchema,
} from '../../../shared/proto/generated/reflection_pb.ts';
import type { RawStreamCall } from './calls.ts';
import { assertControlSize, READ_OPTIONS } from './service.ts';
import { toGrpcError } from './status.ts';

type Answer = NonNullable<MessageInitShape<typeof ResponseSchema>['messageResponse']>;

/**
 * Server reflection, so that tools such as grpcurl need no .proto files. v1alpha has the same messages under another
 * name, and is served by the same handler.
 */
export function createReflectionCall(services: readonly DescService[], logger: Logger): RawStreamCall<Buffer> {
  const files = new Map<string, DescFile>();
  for (const { file } of services) addFile(files, file);
  const answer = (request: ServerReflectionRequest): Answer => answerTo(request, services, files);
  return {
    handle: (client: ServerDuplexStream<Buffer, Buffer>) => {
      client.on('data', (bytes: Buffer) => {
        try {
          assertControlSize('ServerReflectionInfo', bytes);
          const request = fromBinary(ServerReflectionRequestSchema, bytes, READ_OPTIONS);
          const response = { validHost: request.host, originalRequest: request, messageResponse: answer(request) };
          const message = create(ServerReflectionResponseSchema, response);
          // One request at a time, so that a client that reads nothing makes nothing pile up.
          client.pause();
          client.write(Buffer.from(toBinary(ServerReflectionResponseSchema, message)), () => client.resume());
        } catch (error) {
          const invalid = new InferError('INVALID_ARGUMENT', 'not a valid ServerReflectionRequest', { cause: error });
          client.emit('error', toGrpcError(invalid, logger, { method: 'ServerReflectionInfo' }));
        }
      });
      client.on('end', () => client.end());
    },
    serialize: (bytes) => bytes,
  };
}

function addFile(files: Map<string, DescFile>, file: DescFile): void {
  const name = file.proto.name;
  if (files.has(name)) return;
  files.set(name, file);
  for (const dependency of file.dependencies) addFile(files, dependency);
}

function answerTo(
  { messageRequest: asked }: ServerReflectionRequest,
  services: readonly DescService[],
  files: ReadonlyMap<string, DescFile>,
): Answer {
  switch (asked.case) {
    case 'listServices':
      return { case: 'listServicesResponse', value: { service: services.map(({ typeName: name }) => ({ name })) } };
    case 'fileByFilename':
      return fileAnswer(files.get(asked.value), `file ${asked.value}`);
    case 'fileContainingSymbol':
      return fileAnswer(fileOf(asked.value, files), `symbol ${asked.value}`);
    case 'fileContainingExtension':
      return errorAnswer(status.NOT_FOUND, 'this server has no extensions');
    case 'allExtensionNumbersOfType':
      return messageOf(asked.value, files)
        ? { case: 'allExtensionNumbersResponse', value: { baseTypeName: asked.value } }
        : errorAnswer(status.NOT_FOUND, `no message ${asked.value}`);
    default:
      return errorAnswer(status.INVALID_ARGUMENT, 'the request asks for nothing');
  }
}

/** The file first, then what it needs: a tool can then build it in one go. */
function fileAnswer(file: DescFile | undefined, what: string): Answer {
  if (!file) return errorAnswer(status.NOT_FOUND, `no ${what}`);
  const needed = new Map<string, DescFile>();
  addFile(needed, file);
  const fileDescriptorProto = [...needed.values()].map(({ proto }) => toBinary(FileDescriptorProtoSchema, proto));
  return { case: 'fileDescriptorResponse', value: { fileDescriptorProto } };
}

function errorAnswer(errorCode: number, errorMessage: string): Answer {
  return { case: 'errorResponse', value: { errorCode, errorMessage: errorMessage.slice(0, 200) } };
}

/** The file that declares a service, a method, a message with all inside it, or an enum. */
function fileOf(symbol: string, files: ReadonlyMap<string, DescFile>): DescFile | undefined {
  for (const file of files.values()) {
    const isHere =
      file.enums.some((one) => one.typeName === symbol) ||
      file.services.some(
        (one) => one.typeName === symbol || one.methods.some(({ name }) => `${one.typeName}.${name}` === symbol),
      ) ||
      file.messages.some((one) => declares(one, symbol));
    if (isHere) return file;
  }
  return undefined;
}

function declares(message: DescMessage, symbol: string): boolean {
  return (
    message.typeName === symbol ||
    message.fields.some(({ name }) => `${message.typeName}.${name}` === symbol) ||
    message.nestedEnums.some(({ typeName }) => typeName === symbol) ||
    message.nestedMessages.some((nested) => declares(nested, symbol))
  );
}

function messageOf(typeName: string, files: ReadonlyMap<string, DescFile>): boolean {
  return [...files.values()].some((file) => file.messages.some((one) => one.typeName === typeName));
}
