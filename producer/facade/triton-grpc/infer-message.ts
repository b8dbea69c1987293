import type { Call } from '../../../shared/infer/call.ts';
import type { InferResponse } from '../../../shared/infer/response.ts';
import type { Pieces } from '../../../shared/tensor/pieces.ts';
import type { Admission } from '../../service/admission.ts';
import type { Services } from '../../service/services.ts';
import { assertMayWake } from '../../service/tenants/assert-may-wake.ts';
import { freeRequest } from '../triton/free-request.ts';
import { decodeId, withRequestId } from '../triton/request-id.ts';
import { checkedVersion, decodeInferRequest, type DecodedRequest, encodeInferResponse } from './codec.ts';
import type { AnswerForm, InferAnswer } from './infer-answer.ts';
import { parseRequestMessage, type RequestMessage } from './request-message.ts';

/** The limits of inference calls. Times in ms, sizes in bytes. */
export interface InferCallSettings {
  /** Largest message of a client; typed contents must not grow beyond it either. */
  readonly maxMessageBytes: number;
}

/** Who waits for the answer to one ModelInferRequest. Exactly one of the two is told, once. */
export interface InferWaiter {
  /** Whose key came with it; '' where keys are not asked for. */
  readonly tenant: string;
  /** @param priority Triton's, 0 = default */
  open(priority: number): Call;
  /** For a unary call: the answer is serialized when this returns. */
  answer(answer: InferAnswer): void;
  /** @param id the client's own id of the request; '' for none, or when it could not be read */
  refuse(error: unknown, id: string): void;
}

/**
 * Runs one ModelInferRequest from its bytes to its answer. Written without `async`: no promise is needed between the
 * service's and the answer.
 */
export function inferMessage(
  bytes: Uint8Array | Pieces,
  form: AnswerForm,
  waiter: InferWaiter,
  services: Services,
  settings: InferCallSettings,
): void {
  let message: RequestMessage;
  try {
    message = parseRequestMessage(bytes);
  } catch (error) {
    waiter.refuse(error, '');
    return;
  }
  try {
    assertMayWake(services.tenants, waiter.tenant, message.modelName);
  } catch (error) {
    waiter.refuse(error, message.id);
    return;
  }
  const run = () => runMessage(message, bytes, form, waiter, services, settings);
  const waking = services.wake(message.modelName);
  if (waking) void waking.then(run);
  else run();
}

function runMessage(
  message: RequestMessage,
  bytes: Uint8Array | Pieces,
  form: AnswerForm,
  waiter: InferWaiter,
  services: Services,
  settings: InferCallSettings,
): void {
  let id = '';
  let decoded: DecodedRequest;
  // What the message holds beside raw tensors stays in memory with them until the answer.
  let restBytes = bytes.length;
  try {
    for (const raw of message.rawContents) restBytes -= raw.length;
    id = decodeId(message.id);
    const model = services.catalog.resolve(message.modelName, checkedVersion(message.modelVersion));
    decoded = decodeInferRequest(message, model, services.sharedMemory, settings.maxMessageBytes);
    reserveRest(services.admission, restBytes, decoded);
  } catch (error) {
    waiter.refuse(withRequestId(error, id), id);
    return;
  }
  const { admission } = services;
  const call = waiter.open(decoded.priority);
  services.infer(decoded.request, call).then(
    (response) => {
      admission.release(restBytes);
      if (!answer(response, decoded, form, waiter)) return;
      // A stream keeps its answers until their turn comes; this one has been written into its frame.
      if (form === 'stream' || !response.free) return;
      response.free();
      freeRequest(decoded.request.inputs, bytes);
    },
    (error: unknown) => {
      admission.release(restBytes);
      decoded.regions?.release();
      waiter.refuse(withRequestId(error, id), id);
    },
  );
}

function reserveRest(admission: Admission, byteLength: number, { regions }: DecodedRequest): void {
  try {
    admission.reserve(byteLength);
  } catch (error) {
    regions?.release();
    throw error;
  }
}

/** Whether the answer was given; when not, the waiter was told why. */
function answer(response: InferResponse, decoded: DecodedRequest, form: AnswerForm, waiter: InferWaiter): boolean {
  let encoded: InferAnswer;
  try {
    encoded = encodeInferResponse(response, decoded, form);
  } catch (error) {
    const { id } = decoded.request;
    waiter.refuse(withRequestId(error, id), id);
    return false;
  } finally {
    decoded.regions?.release();
  }
  waiter.answer(encoded);
  return true;
}
