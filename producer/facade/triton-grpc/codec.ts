import { InferError } from '../../../shared/errors.ts';
import type { InferRequest } from '../../../shared/infer/request.ts';
import type { InferResponse } from '../../../shared/infer/response.ts';
import type { ReadyModel } from '../../../shared/model/ready-model.ts';
import { shownText } from '../../../shared/tensor/text.ts';
import type { RegionHold, SharedMemory } from '../../service/shared-memory.ts';
import { classifyOutput } from '../triton/classification.ts';
import type { OutputWish } from '../triton/output-wish.ts';
import { holdOutputRegions, outputLabel } from '../triton/region-tensors.ts';
import { type AnswerForm, InferAnswer } from './infer-answer.ts';
import { decodeOutputWishes } from './output-wishes.ts';
import { decodeRequestParameters } from './parameters.ts';
import { decodeInputs } from './request-inputs.ts';
import type { RequestMessage } from './request-message.ts';

/** An infer request, and how its answer is to be written. */
export interface DecodedRequest {
  readonly model: ReadyModel;
  readonly request: InferRequest;
  readonly wishes: readonly OutputWish[];
  /** Shared memory that outputs go to; whoever decoded the request releases it when it has been answered. */
  readonly regions: RegionHold | undefined;
  readonly priority: number;
}

const NO_BYTES = new Uint8Array();

/**
 * What a ModelInferRequest asks for. Raw tensors are views of the message, those in shared memory are copied.
 * @param maxBytes the most that the typed contents of one input may take
 * @throws InferError
 */
export function decodeInferRequest(
  message: RequestMessage,
  model: ReadyModel,
  sharedMemory: SharedMemory,
  maxBytes: number,
): DecodedRequest {
  const { parameters, priority } = decodeRequestParameters(message.parameters);
  const wishes = decodeOutputWishes(message.outputs);
  const inputs = decodeInputs(message, model, sharedMemory, maxBytes);
  const outputs = wishes.map(({ name }) => name);
  const { id, modelVersion: version } = message;
  const request = { id, model: model.name, version, inputs, outputs, parameters };
  // Last, so that nothing can fail while it is held.
  const regions = holdOutputRegions(sharedMemory, wishes);
  return { model, request, wishes, regions, priority };
}

/**
 * The answer in the form of the protocol: every output raw, in the order of the model's config.
 * @throws InferError INVALID_ARGUMENT for outputs that cannot come back in the form that was asked for.
 */
export function encodeInferResponse(
  response: InferResponse,
  { model, request, wishes, regions }: DecodedRequest,
  form: AnswerForm,
): InferAnswer {
  const answer = new InferAnswer(form);
  answer.writeHead(response, request.id);
  const contents: Uint8Array[] = [];
  for (const output of response.outputs) {
    const wish = wishes.length === 0 ? undefined : wishes.find(({ name }) => name === output.name);
    const tensor = wish && wish.classes > 0 ? classifyOutput(output, wish.classes, model) : output;
    answer.writeOutput(tensor);
    contents.push(wish?.region ? NO_BYTES : tensor.data);
    if (wish?.region) regions?.write(outputLabel(output.name), wish.region, tensor.data);
  }
  answer.writeContents(contents);
  return answer;
}

/** @throws InferError INVALID_ARGUMENT for a version that is no number; whether it exists is not looked at. */
export function checkedVersion(version: string): string {
  if (/^[0-9]*$/.test(version)) return version;
  throw new InferError('INVALID_ARGUMENT', `model_version must be a number, got ${JSON.stringify(shownText(version))}`);
}
