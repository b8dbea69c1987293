import { type DecodedBundle, decodeBundle, type EncodedBundle, keepItems, payloadKeys } from './job.ts';
import { packedTensorsKey } from './names.ts';
import { InferError } from '../errors.ts';
import { sha256Hex } from '../sha256.ts';
import type { QueueKeys } from './queue-keys.ts';
import { isRecord } from './record.ts';
import { isSealed, type Sealed } from './sealed.ts';

/**
 * Where a pool has keys, the data of a job is a sealed text: the bundle as JSON, with the SHA-256 of each of its tensor keys.
 * The signature is bound to the queue. So nobody without a key can make a job, change one or its tensors, put one into
 * another queue, or have it answered to somebody else.
 */
export function signBundle(
  { data, payloads }: EncodedBundle,
  producer: string,
  bundle: string,
  queue: string,
  keys: QueueKeys,
): EncodedBundle {
  const base = packedTensorsKey(producer, bundle);
  const digests = payloads.map((payload) => [partOf(payload.key, base), sha256Hex(payload.data)] as const);
  return { data: sealData({ ...data, sha256: Object.fromEntries(digests) }, queue, keys), payloads };
}

/**
 * Checks the signature of a job where there are keys, and reads the job.
 * @throws InferError PERMISSION_DENIED for one that is not signed as it should be, INVALID_ARGUMENT as `decodeBundle`
 */
export function decodeJob(data: unknown, model: string, queue: string, keys: QueueKeys | undefined): DecodedBundle {
  if (isRecord(data) && data.unreadable === true) return decodeBundle(data, model); // says so
  if (!isSealed(data)) {
    keys?.check('job', queue, '', {});
    return decodeBundle(data, model);
  }
  keys?.check('job', queue, data.signed, data);
  const bundle = decodeBundle(parse(data.signed), model);
  if (keys) assertWhole(bundle);
  return bundle;
}

/** What the data of a job say, signed or not, unchecked: for looking at. */
export function jobContent(data: unknown): unknown {
  if (!isSealed(data)) return data;
  try {
    return JSON.parse(data.signed);
  } catch {
    return data;
  }
}

/** The same job data with these requests only, in this order, signed where they were. */
export function keepItemsSigned(
  data: unknown,
  sequences: readonly number[],
  queue: string,
  keys: QueueKeys | undefined,
): object {
  const kept = keepItems(jobContent(data), sequences);
  return keys && isSealed(data) ? sealData(kept, queue, keys) : kept;
}

/** Of tensors whose bytes are not those that were signed. */
export function changedTensors(bundle: DecodedBundle, payloads: ReadonlyMap<string, Buffer>): ReadonlySet<string> {
  const changed = new Set<string>();
  const base = packedTensorsKey(bundle.producer, bundle.bundle);
  for (const [key, payload] of payloads) {
    const digest = bundle.digests?.get(partOf(key, base));
    if (digest !== undefined && digest !== sha256Hex(payload)) changed.add(key);
  }
  return changed;
}

function sealData(data: object, queue: string, keys: QueueKeys): Sealed {
  const signed = JSON.stringify(data);
  return { signed, ...keys.sign('job', queue, signed) };
}

/** A signed job can be put back by whoever saw it, so each of its requests has to end; and all its tensors are signed. */
function assertWhole(bundle: DecodedBundle): void {
  const base = packedTensorsKey(bundle.producer, bundle.bundle);
  if (bundle.items.some(({ deadlineMs }) => !Number.isFinite(deadlineMs))) {
    throw new InferError('INVALID_ARGUMENT', 'a request of a signed job has no deadline, expected deadlineMs in each');
  }
  if (payloadKeys(bundle.items).some((key) => !bundle.digests?.has(partOf(key, base)))) {
    throw new InferError('INVALID_ARGUMENT', 'a signed job lacks the sha256 of a tensor, expected one for each key');
  }
}

/** Which of the keys of a bundle it is: `packed`, or `<sequence>:<input>`. */
function partOf(key: string, base: string): string {
  return key === base ? 'packed' : key.slice(base.length + 1);
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new InferError('INVALID_ARGUMENT', 'the signed text of the job is not JSON', { cause });
  }
}
