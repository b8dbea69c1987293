import { InferError, isErrorCode, isRefusedAt } from '../errors.ts';
import { NotServed } from '../infer/not-served.ts';
import {
  type InferResponse,
  RELEASE_REASONS,
  type ReleaseReason,
  type StepRecord,
  type Timings,
} from '../infer/response.ts';
import type { Tensor } from '../tensor/tensor.ts';
import { decodeFrame, encodeFrame } from './frame.ts';
import { isSha256 } from './names.ts';
import { decodeParameters, encodeParameters } from './parameters.ts';
import type { QueueKeys } from './queue-keys.ts';
import { isCount, isRecord } from './record.ts';
import { decodeTensorHeader, encodeTensorHeader, tensorOf } from './tensor-header.ts';

export const REPLY_VERSION = 1;

/** The answer to one request of a producer, found again by its sequence number. */
export type Reply =
  | { readonly sequence: number; readonly response: InferResponse }
  | { readonly sequence: number; readonly error: InferError };

/** Bytes that a reply will take in a frame, near enough to decide how many share one. */
export function replyByteLength(reply: Reply): number {
  let byteLength = 512;
  if ('response' in reply) for (const output of reply.response.outputs) byteLength += output.data.byteLength + 128;
  return byteLength;
}

/** All answers of one batch for one producer in one frame: what is said of them in the header, tensors as sections. */
export function encodeReplies(replies: readonly Reply[]): Buffer {
  const sections: Uint8Array[] = [];
  const wire = replies.map((reply) => {
    if ('error' in reply) {
      const { code, message, refusedAt } = reply.error;
      const notServed = reply.error instanceof NotServed || undefined;
      return { sequence: reply.sequence, error: { code, message, refusedAt, notServed } };
    }
    const { model, version, outputs, parameters, timings, steps, identity } = reply.response;
    for (const output of outputs) sections.push(output.data);
    return {
      sequence: reply.sequence,
      model,
      version,
      outputs: outputs.map(encodeTensorHeader),
      parameters: encodeParameters(parameters),
      timings: encodeTimings(timings),
      steps: steps?.map(encodeStep),
      identity,
    };
  });
  return encodeFrame({ v: REPLY_VERSION, replies: wire }, sections);
}

/** The fields of a stream entry that holds a frame for a producer. The frame is always the first. */
export function replyFields(keys: QueueKeys | undefined, producer: string, frame: Buffer): (string | Buffer)[] {
  if (!keys) return ['b', frame];
  const { key, mac } = keys.sign('reply', producer, frame);
  return ['b', frame, 'k', key, 'm', mac];
}

/** @throws InferError PERMISSION_DENIED for an entry that is not signed as it should be. @param fields as they were read */
export function checkReplies(keys: QueueKeys, producer: string, fields: readonly Buffer[]): void {
  const [, frame = Buffer.alloc(0), keyName, key, macName, mac] = fields.map((field, index) => {
    return index === 1 ? field : field.toString('latin1');
  });
  const signature = keyName === 'k' && macName === 'm' ? { key, mac } : {};
  keys.check('reply', producer, frame, signature);
}

/** @throws InferError INVALID_ARGUMENT for a frame that `encodeReplies` did not write. */
export function decodeReplies(frame: Buffer): Reply[] {
  const { header, sections } = decodeFrame(frame);
  if (!isRecord(header) || header.v !== REPLY_VERSION || !Array.isArray(header.replies)) {
    throw invalid(`it is no reply of version ${REPLY_VERSION}`);
  }
  const next = { section: 0 };
  const replies = (header.replies as unknown[]).map((wire) => decodeReply(wire, sections, next));
  if (next.section !== sections.length) throw invalid('it has more sections than outputs');
  return replies;
}

function decodeReply(wire: unknown, sections: readonly Buffer[], next: { section: number }): Reply {
  if (!isRecord(wire) || !isCount(wire.sequence)) throw invalid('an answer has no sequence number');
  const { sequence, error, model, version, outputs } = wire;
  if (error !== undefined) {
    if (!isRecord(error) || !isErrorCode(error.code) || typeof error.message !== 'string') {
      throw invalid('an error has no known code or no message');
    }
    if (error.notServed === true) return { sequence, error: new NotServed(error.code, error.message) };
    const refusedAt = isRefusedAt(error.refusedAt) ? error.refusedAt : undefined;
    return { sequence, error: new InferError(error.code, error.message, { refusedAt }) };
  }
  if (typeof model !== 'string' || typeof version !== 'string' || !Array.isArray(outputs)) {
    throw invalid('an answer lacks model, version or outputs');
  }
  const tensors: Tensor[] = [];
  for (const output of outputs as unknown[]) {
    const section = sections[next.section];
    if (!section) throw invalid('it has fewer sections than outputs');
    next.section += 1;
    tensors.push(tensorOf(decodeTensorHeader(output), section));
  }
  const parameters = decodeParameters(wire.parameters);
  const timings = decodeTimings(wire.timings);
  const identity = isSha256(wire.identity) && { identity: wire.identity };
  const response = { model, version, outputs: tensors, parameters, timings, ...identity };
  if (wire.steps === undefined) return { sequence, response };
  if (!Array.isArray(wire.steps)) throw invalid('the steps of an answer are no list');
  return { sequence, response: { ...response, steps: (wire.steps as unknown[]).map(decodeStep) } };
}

/** A list instead of an object: it is in every answer, and both ends are in this file. */
function encodeTimings(timings: Timings): (number | string)[] {
  const { queueUs, computeInputUs, computeInferUs, computeOutputUs, batchSize, executions, release } = timings;
  const wire = [queueUs, computeInputUs, computeInferUs, computeOutputUs, batchSize, executions, release];
  if (timings.elements !== undefined) wire.push(timings.elements, timings.paddedElements ?? 0);
  return wire;
}

function decodeTimings(wire: unknown): Timings {
  if (!Array.isArray(wire)) throw invalid('an answer has no timings');
  const [queueUs, computeInputUs, computeInferUs, computeOutputUs, batchSize, executions, release, ...share] =
    wire as unknown[];
  if (
    typeof queueUs !== 'number' ||
    typeof computeInputUs !== 'number' ||
    typeof computeInferUs !== 'number' ||
    typeof computeOutputUs !== 'number' ||
    typeof batchSize !== 'number' ||
    (executions !== 0 && executions !== 1) ||
    !isReleaseReason(release)
  ) {
    throw invalid('the timings of an answer are incomplete');
  }
  const plain = { queueUs, computeInputUs, computeInferUs, computeOutputUs, batchSize, executions, release } as const;
  const [elements, paddedElements] = share;
  return isCount(elements) && isCount(paddedElements) ? { ...plain, elements, paddedElements } : plain;
}

function encodeStep({ model, version, rows, requestUs, timings }: StepRecord) {
  return { model, version, rows, requestUs, timings: encodeTimings(timings) };
}

function decodeStep(wire: unknown): StepRecord {
  if (!isRecord(wire)) throw invalid('a step of an answer is incomplete');
  const { model, version, rows, requestUs } = wire;
  if (typeof model !== 'string' || typeof version !== 'string' || !isCount(rows) || typeof requestUs !== 'number') {
    throw invalid('a step of an answer is incomplete');
  }
  return { model, version, rows, requestUs, timings: decodeTimings(wire.timings) };
}

function isReleaseReason(value: unknown): value is ReleaseReason {
  return (RELEASE_REASONS as readonly unknown[]).includes(value);
}

function invalid(what: string): InferError {
  return new InferError('INVALID_ARGUMENT', `broken reply: ${what}`);
}
