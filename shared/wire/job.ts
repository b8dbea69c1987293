import { InferError } from '../errors.ts';
import type { InferRequest, Parameters } from '../infer/request.ts';
import type { Tensor } from '../tensor/tensor.ts';
import { isJobId } from '../jobs/job.ts';
import { isSha256, isWireId, JOBS_PRODUCER, packedTensorsKey, tensorKey } from './names.ts';
import { decodeParameters, encodeParameters } from './parameters.ts';
import { isCount, isRecord } from './record.ts';
import { decodeTensorHeader, encodeTensorHeader, type TensorHeader, tensorOf } from './tensor-header.ts';

/**
 * A job is a bundle: one or more requests of one producer for one model. Its JSON says what there is, never what is in
 * it; the tensors lie in keys of their own, whose names follow from producer, bundle and position, so that a forged job
 * can name no other key.
 */
export const JOB_VERSION = 1;

/** Put in the place of job data that is not JSON; refused with that reason. */
export const UNREADABLE_JOB = { v: 0, unreadable: true } as const;

/** Tensors below this many bytes share one key per bundle: a key of its own costs more than the copy. */
const PACK_BELOW_BYTES = 16 * 1024;
const MAX_ITEMS = 1024;
const MAX_INPUTS = 1024;
const MAX_OUTPUTS = 1024;
const MAX_TEXT_LENGTH = 64 * 1024;

/** One request on its way into a bundle. */
export interface OutgoingItem {
  /** Number of the request at its producer; answers come back under it. */
  readonly sequence: number;
  readonly callId: string;
  readonly request: InferRequest;
  readonly priority: number;
  /** On Redis' clock in ms; Infinity for none. */
  readonly deadlineMs: number;
}

/** Makes a bundle of one request a job of the Jobs API: nobody waits for it on a stream, its answer goes to its record. */
export interface JobPart {
  /** The id of the record, and of the bundle. */
  readonly id: string;
  /** From when it was made to its deadline. */
  readonly timeoutMs: number;
}

export interface EncodedBundle {
  /** The data of the BullMQ job. */
  readonly data: object;
  /** What has to be in Redis before the job is. */
  readonly payloads: readonly Payload[];
}

export interface Payload {
  readonly key: string;
  readonly data: Uint8Array;
}

export function encodeBundle(
  producer: string,
  bundle: string,
  model: string,
  items: readonly OutgoingItem[],
  job?: JobPart,
): EncodedBundle {
  const packed: Uint8Array[] = [];
  const payloads: Payload[] = [];
  let packedBytes = 0;
  const wireItems = items.map((item) => ({
    sequence: item.sequence,
    callId: item.callId,
    requestId: item.request.id || undefined,
    version: item.request.version || undefined,
    deadlineMs: Number.isFinite(item.deadlineMs) ? Math.round(item.deadlineMs) : undefined,
    priority: item.priority || undefined,
    parameters: encodeParameters(item.request.parameters),
    outputs: item.request.outputs.length === 0 ? undefined : item.request.outputs,
    inputs: item.request.inputs.map((tensor, input) => {
      const header = encodeTensorHeader(tensor);
      if (tensor.data.byteLength >= PACK_BELOW_BYTES) {
        payloads.push({ key: tensorKey(producer, bundle, item.sequence, input), data: tensor.data });
        return header;
      }
      const offset = packedBytes;
      packed.push(tensor.data);
      packedBytes += tensor.data.byteLength;
      return { ...header, offset };
    }),
  }));
  if (packed.length > 0) {
    const data = packed.length === 1 && packed[0] ? packed[0] : Buffer.concat(packed, packedBytes);
    payloads.unshift({ key: packedTensorsKey(producer, bundle), data });
  }
  return { data: { v: JOB_VERSION, producer, bundle, model, items: wireItems, job }, payloads };
}

/** A request as it lies in a bundle, without its tensors. */
export interface BundleItem {
  readonly sequence: number;
  readonly callId: string;
  readonly priority: number;
  /** On Redis' clock in ms; Infinity for none. */
  readonly deadlineMs: number;
  readonly request: Omit<InferRequest, 'inputs'>;
  readonly inputs: readonly ItemInput[];
}

interface ItemInput {
  readonly header: TensorHeader;
  /** The key that holds the bytes. */
  readonly key: string;
  /** Position in a shared key; undefined for a key of its own. */
  readonly offset: number | undefined;
}

/** An item that says who asked but is not a request. */
export interface RefusedItem {
  readonly sequence: number;
  readonly error: InferError;
}

export interface DecodedBundle {
  readonly producer: string;
  readonly bundle: string;
  readonly model: string;
  readonly items: readonly BundleItem[];
  readonly refused: readonly RefusedItem[];
  /** Present for a job of the Jobs API, which holds one request. */
  readonly job: JobPart | undefined;
  /** SHA-256 of what its tensor keys hold, by `packed` or `<sequence>:<input>`; present for a signed job. */
  readonly digests: ReadonlyMap<string, string> | undefined;
}

/**
 * Reads a job's data, which anybody with access to Redis may have written. `model` is the one that the queue is for.
 * @throws InferError INVALID_ARGUMENT when the envelope is wrong, so that nobody can be answered.
 */
export function decodeBundle(data: unknown, model: string): DecodedBundle {
  if (!isRecord(data)) throw invalid('the job data must be an object');
  if (data.unreadable === true) throw invalid('the job data is not JSON');
  if (data.v !== JOB_VERSION) {
    const given = typeof data.v === 'number' ? data.v : 'none';
    throw invalid(`job version ${JOB_VERSION} expected, ${given} given`);
  }
  const { producer, bundle, items: wireItems } = data;
  if (!isWireId(producer)) throw invalid('the job has no valid producer id');
  if (!isWireId(bundle)) throw invalid('the job has no valid bundle id');
  if (typeof data.model !== 'string' || data.model !== model) {
    throw invalid(`the job is for another model than its queue, expected ${JSON.stringify(model)}`);
  }
  if (!Array.isArray(wireItems) || wireItems.length === 0 || wireItems.length > MAX_ITEMS) {
    throw invalid(`a job holds 1 to ${MAX_ITEMS} requests`);
  }
  const job = decodeJobPart(data.job, producer, bundle);
  if (job && wireItems.length > 1) throw invalid('a job with a record holds one request');
  const items: BundleItem[] = [];
  const refused: RefusedItem[] = [];
  const seen = new Set<number>();
  for (const wire of wireItems as unknown[]) {
    if (!isRecord(wire) || !isCount(wire.sequence)) throw invalid('a request in the job has no sequence number');
    if (seen.has(wire.sequence)) throw invalid(`the job holds request ${wire.sequence} twice`);
    seen.add(wire.sequence);
    try {
      items.push(decodeItem(producer, bundle, model, wire.sequence, wire));
    } catch (error) {
      refused.push({ sequence: wire.sequence, error: InferError.from(error) });
    }
  }
  return { producer, bundle, model, items, refused, job, digests: decodeDigests(data.sha256) };
}

function decodeDigests(wire: unknown): ReadonlyMap<string, string> | undefined {
  if (wire === undefined) return undefined;
  const digests = isRecord(wire) ? Object.entries(wire) : [];
  const isWhole = isRecord(wire) && digests.every((entry): entry is [string, string] => isSha256(entry[1]));
  if (!isWhole) throw invalid('sha256 of the job must be an object of 64 hex digits for each tensor key');
  return new Map(digests);
}

function decodeJobPart(wire: unknown, producer: string, bundle: string): JobPart | undefined {
  if (wire === undefined) return undefined;
  if (!isRecord(wire) || !isJobId(wire.id) || !isCount(wire.timeoutMs)) {
    throw invalid('the job names no valid record');
  }
  const { id, timeoutMs } = wire;
  if (producer !== JOBS_PRODUCER || bundle !== id) throw invalid('the job names the record of another job');
  return { id, timeoutMs };
}

function decodeItem(
  producer: string,
  bundle: string,
  model: string,
  sequence: number,
  wire: Record<string, unknown>,
): BundleItem {
  const { version = '', requestId = '', callId, priority = 0, deadlineMs = Infinity, outputs = [], inputs } = wire;
  if (!isText(version) || !isText(requestId) || !isText(callId)) {
    throw invalid(`version, requestId and callId must be texts of at most ${MAX_TEXT_LENGTH} characters`);
  }
  if (!isCount(priority)) throw invalid('priority must be a non-negative integer');
  if (typeof deadlineMs !== 'number') throw invalid('deadlineMs must be a number');
  if (!Array.isArray(outputs) || outputs.length > MAX_OUTPUTS || !outputs.every(isText)) {
    throw invalid(`outputs must be at most ${MAX_OUTPUTS} names`);
  }
  if (!Array.isArray(inputs) || inputs.length > MAX_INPUTS) {
    throw invalid(`inputs must be at most ${MAX_INPUTS} tensors`);
  }
  const parameters: Parameters = decodeParameters(wire.parameters);
  return {
    sequence,
    callId,
    priority,
    deadlineMs,
    request: { id: requestId, model, version, outputs, parameters },
    inputs: (inputs as unknown[]).map((input, index) => decodeInput(producer, bundle, sequence, index, input)),
  };
}

function decodeInput(producer: string, bundle: string, sequence: number, index: number, wire: unknown): ItemInput {
  const header = decodeTensorHeader(wire);
  const offset = isRecord(wire) ? wire.offset : undefined;
  if (offset === undefined) return { header, key: tensorKey(producer, bundle, sequence, index), offset };
  if (!isCount(offset)) throw invalid(`tensor ${JSON.stringify(header.name)} has no valid offset`);
  return { header, key: packedTensorsKey(producer, bundle), offset };
}

/** The keys that hold the tensors of these items, each once. */
export function payloadKeys(items: readonly BundleItem[]): string[] {
  const keys = new Set<string>();
  for (const item of items) for (const input of item.inputs) keys.add(input.key);
  return [...keys];
}

/**
 * The request of an item, with views into the payloads.
 * @throws InferError UNAVAILABLE when a payload is gone (expired, or used up by an earlier run of the same job),
 *   INVALID_ARGUMENT when it is not what was announced.
 */
export function requestOf(item: BundleItem, payloads: ReadonlyMap<string, Buffer>): InferRequest {
  const inputs: Tensor[] = [];
  for (const { header, key, offset } of item.inputs) {
    const payload = payloads.get(key);
    if (!payload) {
      throw new InferError('UNAVAILABLE', 'the tensors of the request are no longer in the queue');
    }
    const data = offset === undefined ? payload : payload.subarray(offset, offset + header.byteLength);
    inputs.push(tensorOf(header, data));
  }
  return { ...item.request, inputs };
}

/** The same job data with these requests only, in this order. */
export function keepItems(data: unknown, sequences: readonly number[]): object {
  if (!isRecord(data) || !Array.isArray(data.items)) throw invalid('the job data must be an object');
  const bySequence = new Map<unknown, unknown>();
  for (const item of data.items as unknown[]) if (isRecord(item)) bySequence.set(item.sequence, item);
  return { ...data, items: sequences.map((sequence) => bySequence.get(sequence)) };
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value.length <= MAX_TEXT_LENGTH;
}

function invalid(message: string): InferError {
  return new InferError('INVALID_ARGUMENT', message);
}
