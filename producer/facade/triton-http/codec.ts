import { InferError } from '../../../shared/errors.ts';
import { type InferRequest, NO_PARAMETERS, type Parameters } from '../../../shared/infer/request.ts';
import type { InferResponse } from '../../../shared/infer/response.ts';
import type { ReadyModel } from '../../../shared/model/ready-model.ts';
import { encodeJsonData } from '../../../shared/tensor/json-encode.ts';
import { Pieces } from '../../../shared/tensor/pieces.ts';
import type { Tensor } from '../../../shared/tensor/tensor.ts';
import { shownValue } from '../../../shared/tensor/text.ts';
import type { RegionHold, SharedMemory } from '../../service/shared-memory.ts';
import type { AnswerBody } from '../../http/send-body.ts';
import { classifyOutput, type LabelledModel } from '../triton/classification.ts';
import type { OutputWish } from '../triton/output-wish.ts';
import { holdOutputRegions, outputLabel } from '../triton/region-tensors.ts';
import { decodeId, withRequestId } from '../triton/request-id.ts';
import type { HeadCache } from './head-cache.ts';
import { decodeOutputWishes } from './output-wishes.ts';
import { decodeRequestParameters } from './parameters.ts';
import { decodeRawInput } from './raw-request.ts';
import { decodeInputs } from './request-inputs.ts';

/** Up to here one buffer is sent faster than several. */
const JOINED_BYTES = 16 * 1024;

/** Names that need no escaping in JSON, which is nearly all of them. */
const PLAIN_NAME = /^[\w .:/@+-]*$/;

/** An infer request, and how its answer is to be written. */
export interface DecodedRequest {
  readonly request: InferRequest;
  readonly wishes: readonly OutputWish[];
  /** For outputs that `wishes` does not name. */
  readonly binaryByDefault: boolean;
  /** Shared memory that outputs go to; whoever decoded the request releases it when it has been answered. */
  readonly regions: RegionHold | undefined;
  /** Whether NaN and infinities are written as bare words in JSON; otherwise they are strings, and the JSON is strict. */
  readonly bareNan: boolean;
  readonly priority: number;
}

/**
 * Decodes the body of `infer`: JSON, JSON with binary tensors behind it, or a raw tensor. Tensors are views of the body,
 * or copies out of shared memory.
 * @param headerLength the Inference-Header-Content-Length header: the bytes of JSON; undefined means all of them
 * @param version as the client asked for it, '' for none
 * @throws InferError
 */
export function decodeInferRequest(
  body: Buffer | Pieces,
  headerLength: string | undefined,
  model: ReadyModel,
  version: string,
  heads: HeadCache,
  memory: SharedMemory,
): DecodedRequest {
  const jsonLength = headerLength === undefined ? body.length : parseHeaderLength(headerLength, body.length);
  if (headerLength !== undefined && jsonLength === 0) {
    const inputs = [decodeRawInput(body, model)];
    const request = { id: '', model: model.name, version, inputs, outputs: [], parameters: NO_PARAMETERS };
    return { request, wishes: [], binaryByDefault: true, regions: undefined, bareNan: false, priority: 0 };
  }
  if (body.length === 0) throw new InferError('INVALID_ARGUMENT', 'the request has no body');
  const document = heads.parse(body instanceof Pieces ? body.front(jsonLength) : body, jsonLength);
  const { root } = document;
  const id = decodeId(root.id);
  try {
    const options = decodeRequestParameters(root.parameters, () => document.exact().parameters);
    const wishes = decodeOutputWishes(root.outputs);
    const inputs = decodeInputs(document, body, jsonLength, model, memory);
    const outputs = wishes.map((wish) => wish.name);
    const request = { id, model: model.name, version, inputs, outputs, parameters: options.parameters };
    const { binaryByDefault, bareNan = document.bareFloats, priority } = options;
    // Last, so that nothing can fail while it is held.
    const regions = holdOutputRegions(memory, wishes);
    return { request, wishes, binaryByDefault, regions, bareNan, priority };
  } catch (error) {
    throw withRequestId(error, id);
  }
}

function parseHeaderLength(text: string, bodyLength: number): number {
  const length = /^\d{1,15}$/.test(text) ? Number(text) : undefined;
  if (length === undefined) {
    throw new InferError(
      'INVALID_ARGUMENT',
      `header Inference-Header-Content-Length must be a whole number, got ${shownValue(text)}`,
    );
  }
  if (length > bodyLength) {
    throw new InferError(
      'INVALID_ARGUMENT',
      `header Inference-Header-Content-Length is ${length}, but the body has ${bodyLength} bytes`,
    );
  }
  return length;
}

/** What the answer of a request is written by. */
export type AnswerWish = Omit<DecodedRequest, 'request' | 'priority'> & { readonly request: { readonly id: string } };

export interface EncodedResponse {
  readonly body: AnswerBody;
  /** Bytes of JSON in front of binary tensors; undefined when the body is JSON alone. */
  readonly jsonLength: number | undefined;
}

/** @throws InferError INVALID_ARGUMENT for values that cannot come back in the form that was asked for. */
export function encodeInferResponse(
  response: InferResponse,
  decoded: AnswerWish,
  model: LabelledModel,
): EncodedResponse {
  const { id } = decoded.request;
  const blobs: Uint8Array[] = [];
  let json = id === '' ? '{' : `{"id":${JSON.stringify(id)},`;
  json += `"model_name":${quote(response.model)},"model_version":"${response.version}"`;
  if (response.parameters !== NO_PARAMETERS) json += encodeParameters(response.parameters);
  json += ',"outputs":[';
  for (let i = 0; i < response.outputs.length; i++) {
    const output = response.outputs[i];
    if (!output) continue;
    if (i > 0) json += ',';
    json += encodeOutput(output, decoded, model, blobs);
  }
  json += ']}';
  return joinBody(json, blobs);
}

function encodeOutput(output: Tensor, decoded: AnswerWish, model: LabelledModel, blobs: Uint8Array[]): string {
  const wish = decoded.wishes.find(({ name }) => name === output.name);
  const tensor = wish && wish.classes > 0 ? classifyOutput(output, wish.classes, model) : output;
  const head = `{"name":${quote(tensor.name)},"datatype":"${tensor.datatype}","shape":[${tensor.shape.join(',')}]`;
  if (wish?.region) {
    decoded.regions?.write(outputLabel(tensor.name), wish.region, tensor.data);
    return `${head}}`;
  }
  if (wish ? wish.binary : decoded.binaryByDefault) {
    if (tensor.data.byteLength > 0) blobs.push(tensor.data);
    return `${head},"parameters":{"binary_data_size":${tensor.data.byteLength}}}`;
  }
  return `${head},"data":${encodeJsonData(`output ${tensor.name}`, tensor, decoded.bareNan)}}`;
}

function encodeParameters(parameters: Parameters): string {
  const entries = Object.entries(parameters);
  if (entries.length === 0) return '';
  const texts = entries.map(([key, value]) => {
    const text = typeof value === 'bigint' ? String(value) : JSON.stringify(value);
    return `${JSON.stringify(key)}:${text}`;
  });
  return `,"parameters":{${texts.join(',')}}`;
}

function quote(name: string): string {
  return PLAIN_NAME.test(name) ? `"${name}"` : JSON.stringify(name);
}

/**
 * The JSON and the tensors behind it: in one buffer where they are small, and otherwise as they are, because joining them
 * would be a copy of each tensor.
 */
function joinBody(json: string, blobs: readonly Uint8Array[]): EncodedResponse {
  if (blobs.length === 0) return { body: Buffer.from(json), jsonLength: undefined };
  const jsonLength = Buffer.byteLength(json);
  let blobBytes = 0;
  for (const blob of blobs) blobBytes += blob.byteLength;
  const isJoined = blobBytes <= JOINED_BYTES;
  const body = Buffer.allocUnsafe(isJoined ? jsonLength + blobBytes : jsonLength);
  // Plain ASCII, which it nearly always is, is written faster as latin1.
  let offset = body.write(json, 0, jsonLength === json.length ? 'latin1' : 'utf8');
  if (!isJoined) return { body: [body, ...blobs], jsonLength };
  for (const blob of blobs) {
    body.set(blob, offset);
    offset += blob.byteLength;
  }
  return { body, jsonLength };
}
