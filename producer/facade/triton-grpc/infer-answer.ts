import { create, toBinary } from '@bufbuild/protobuf';
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import { InferError } from '../../../shared/errors.ts';
import type { ParameterValue } from '../../../shared/infer/request.ts';
import type { InferResponse } from '../../../shared/infer/response.ts';
import { ModelStreamInferResponseSchema } from '../../../shared/proto/generated/grpc_service_pb.ts';
import type { Tensor } from '../../../shared/tensor/tensor.ts';
import type { WireMessage } from './calls.ts';

/** A message of its own, or inside a ModelStreamInferResponse, where it says that no other follows for its request. */
export type AnswerForm = 'unary' | 'stream';

/** What a gRPC message can have at most, in bytes. */
const MAX_MESSAGE_BYTES = 2 ** 31 - 1;

/**
 * A ModelInferResponse that is written straight into the frame that goes to the socket: the tensors are copied once,
 * where a message object with its own encoder would copy them three times. The tensors must not change until then.
 */
export class InferAnswer implements WireMessage {
  readonly #form: AnswerForm;
  readonly #writer = new BinaryWriter();
  /** In order: small encoded parts, and tensors between them. */
  #parts: readonly Uint8Array[] = [];
  #byteLength = 0;

  constructor(form: AnswerForm) {
    this.#form = form;
  }

  get byteLength(): number {
    return this.#byteLength;
  }

  copy(frame: Uint8Array, offset: number): void {
    let at = offset;
    for (const part of this.#parts) {
      frame.set(part, at);
      at += part.length;
    }
  }

  writeHead({ model, version, parameters }: InferResponse, id: string): void {
    const writer = this.#writer;
    writeString(writer, 1, model);
    writeString(writer, 2, version);
    writeString(writer, 3, id);
    for (const key in parameters) {
      const value = parameters[key];
      if (value !== undefined) writeParameter(writer, key, value);
    }
    if (this.#form === 'stream') writeParameter(writer, 'triton_final_response', true);
  }

  writeOutput({ name, datatype, shape }: Tensor): void {
    const writer = this.#writer;
    writer.tag(5, WireType.LengthDelimited).fork();
    writeString(writer, 1, name);
    writeString(writer, 2, datatype);
    if (shape.length > 0) {
      writer.tag(3, WireType.LengthDelimited).fork();
      for (const dimension of shape) {
        if (dimension < 0x80) writer.uint32(dimension);
        else writer.int64(dimension);
      }
      writer.join();
    }
    writer.join();
  }

  /**
   * One entry for each output, after all of them. Completes the answer.
   * @throws InferError INVALID_ARGUMENT when it is larger than gRPC can carry.
   */
  writeContents(contents: readonly Uint8Array[]): void {
    const writer = this.#writer;
    const parts: Uint8Array[] = [];
    let byteLength = 0;
    for (const data of contents) {
      writer.tag(6, WireType.LengthDelimited).uint32(Math.min(data.length, MAX_MESSAGE_BYTES));
      if (data.length === 0) continue;
      const head = writer.finish();
      parts.push(head, data);
      byteLength += head.length + data.length;
    }
    const rest = writer.finish();
    if (rest.length > 0) parts.push(rest);
    byteLength += rest.length;
    if (byteLength > MAX_MESSAGE_BYTES - 16) {
      throw new InferError(
        'INVALID_ARGUMENT',
        `the answer has ${byteLength} bytes, and a gRPC message can have ${MAX_MESSAGE_BYTES} at most`,
      );
    }
    if (this.#form === 'stream') {
      const head = writer.tag(2, WireType.LengthDelimited).uint32(byteLength).finish();
      parts.unshift(head);
      byteLength += head.length;
    }
    this.#parts = parts;
    this.#byteLength = byteLength;
  }
}

/** A message of a stream that says why a request has no answer. */
export function encodeStreamError(message: string, id: string): WireMessage {
  const response = create(ModelStreamInferResponseSchema, { errorMessage: message, inferResponse: { id } });
  return Buffer.from(toBinary(ModelStreamInferResponseSchema, response));
}

function writeString(writer: BinaryWriter, field: number, text: string): void {
  if (text !== '') writer.tag(field, WireType.LengthDelimited).string(text);
}

/** An entry of `parameters`, which has the same number in all messages that have it here. */
function writeParameter(writer: BinaryWriter, key: string, value: ParameterValue): void {
  writer.tag(4, WireType.LengthDelimited).fork();
  writeString(writer, 1, key);
  writer.tag(2, WireType.LengthDelimited).fork();
  if (typeof value === 'boolean') writer.tag(1, WireType.Varint).bool(value);
  else if (typeof value === 'string') writer.tag(3, WireType.LengthDelimited).string(value);
  else if (typeof value === 'number' && !Number.isSafeInteger(value)) writer.tag(4, WireType.Bit64).double(value);
  else if (BigInt.asIntN(64, BigInt(value)) === BigInt(value)) writer.tag(2, WireType.Varint).int64(value);
  else writer.tag(5, WireType.Varint).uint64(value);
  writer.join();
  writer.join();
}
