import { InferError } from '../errors.ts';

/**
 * Every name that Millrace uses in Redis. The braces are a hash tag: all keys live in one slot, so that scripts over
 * several keys work in a cluster. BullMQ's keys are `{millrace}:<queue>:…`, our own `{millrace}.<kind>:…`; the dot keeps
 * a model called like one of our kinds from meeting them.
 */
export const QUEUE_PREFIX = '{millrace}';

/** Announced workers: a sorted set of worker ids by the time of their last heartbeat (Redis' clock, ms). */
export const WORKERS_KEY = `${QUEUE_PREFIX}.workers`;

/**
 * Known models: a hash from encoded `name/version` to a pointer to the description, or to a mark that the last worker which
 * had it has unloaded it. Outlives the workers.
 */
export const MODELS_KEY = `${QUEUE_PREFIX}.models`;

/** Version queues in use: a sorted set of queue names by the time when a producer last said so (Redis' clock, ms). */
export const VERSION_QUEUES_KEY = `${QUEUE_PREFIX}.version-queues`;

/** Queues of single workers: a hash from queue name to worker id. They go when their worker does. */
export const WORKER_QUEUES_KEY = `${QUEUE_PREFIX}.worker-queues`;

/** What was last asked of each model: a hash from encoded model name to a control entry. */
export const CONTROL_KEY = `${QUEUE_PREFIX}.control`;

/** How requests are spread over the versions of models: a hash from encoded model name to a traffic entry. */
export const TRAFFIC_KEY = `${QUEUE_PREFIX}.traffic`;

/** How fast workers ran each model when last measured: a hash from encoded model name to rows a second. */
export const SPEEDS_KEY = `${QUEUE_PREFIX}.speeds`;

/** Jobs of the Jobs API, by id, which is in the order of time: a sorted set whose scores are all 0. */
export const JOBS_KEY = `${QUEUE_PREFIX}.jobs`;

/** When their records go: a sorted set of job ids by expiry (Redis' ms), by which the list above is pruned. */
export const JOBS_EXPIRY_KEY = `${QUEUE_PREFIX}.jobs-expiry`;

/** Those that are not over: a sorted set of job ids by deadline (Redis' ms). */
export const JOBS_OPEN_KEY = `${QUEUE_PREFIX}.jobs-open`;

/** A stream with an entry for each change of state of a job, for all who wait for one. */
export const JOBS_EVENTS_KEY = `${QUEUE_PREFIX}.jobs-events`;

/** Jobs that are over and whose webhooks are not in their queue yet: a hash from job id to the record as JSON. */
export const WEBHOOKS_KEY = `${QUEUE_PREFIX}.webhooks`;

/** The BullMQ queue of webhooks, whose name can be no model's. */
export const WEBHOOK_QUEUE = '@webhooks';

/** What all producers have in hand together, where that is limited: a hash of counts. */
export const LIMITS_KEY = `${QUEUE_PREFIX}.limits`;

/** Producers whose requests are counted there: a sorted set of ids by the time when they were last heard of (Redis' us). */
export const LIMITS_PRODUCERS_KEY = `${QUEUE_PREFIX}.limits-producers`;

/** Stands where a bundle names its producer: jobs of the Jobs API belong to nobody, and their answers go to their records. */
export const JOBS_PRODUCER = 'jobs';

const ID = /^[A-Za-z0-9_-]{1,64}$/;
const SHA256 = /^[0-9a-f]{64}$/;
const MAX_MODEL_NAME_BYTES = 255;

/** Whether a producer, bundle or worker id may become part of a key. */
export function isWireId(value: unknown): value is string {
  return typeof value === 'string' && ID.test(value);
}

export function isSha256(value: unknown): value is string {
  return typeof value === 'string' && SHA256.test(value);
}

/**
 * A model name as part of a key or queue: letters, digits, `_`, `.` and `-` stay, every other byte becomes `~` and two
 * hex digits. Reversible, and free of `:`, braces and wildcards.
 * @throws InferError INVALID_ARGUMENT for an empty name or one of more than 255 bytes.
 */
export function encodeModelName(name: string): string {
  if (name === '' || name.length > MAX_MODEL_NAME_BYTES || Buffer.byteLength(name) > MAX_MODEL_NAME_BYTES) {
    throw new InferError(
      'INVALID_ARGUMENT',
      `a model name has 1 to ${MAX_MODEL_NAME_BYTES} bytes, this one has ${Buffer.byteLength(name)}`,
    );
  }
  return name.replace(/[^A-Za-z0-9_.-]/gu, escapeBytes);
}

function escapeBytes(character: string): string {
  let text = '';
  for (const byte of Buffer.from(character)) text += `~${byte.toString(16).padStart(2, '0')}`;
  return text;
}

/**
 * The BullMQ queue of a model, or of one of its versions, or of a model at one worker. One queue per model name, so that a
 * worker takes work for its own models only; one per version where workers differ in what they have; one per worker where
 * it matters which one gets a request. An encoded name holds no '@', and a version is a number.
 */
export function queueName(model: string, version = '', worker = ''): string {
  const name = encodeModelName(model);
  if (worker !== '') return `${name}@@${worker}`;
  return version === '' ? name : `${name}@${version}`;
}

/** The field of a model version in the list of known models. */
export function modelField(name: string, version: string): string {
  return `${encodeModelName(name)}/${version}`;
}

/** In place of the description of a model version that was unloaded, with the time on Redis' clock in ms. */
export function unloadedMark(redisMs: number): string {
  return `unloaded ${Math.round(redisMs)}`;
}

/** The time of such a mark; undefined for anything else. */
export function readUnloadedMark(text: string): number | undefined {
  const digits = /^unloaded (\d{1,15})$/.exec(text)?.[1];
  return digits === undefined ? undefined : Number(digits);
}

/** The small tensors of one bundle, one after another. */
export function packedTensorsKey(producer: string, bundle: string): string {
  return `${QUEUE_PREFIX}.tensor:${producer}:${bundle}`;
}

/** One tensor that is big enough for a key of its own. `sequence` is the request's number at its producer. */
export function tensorKey(producer: string, bundle: string, sequence: number, input: number): string {
  return `${QUEUE_PREFIX}.tensor:${producer}:${bundle}:${sequence}:${input}`;
}

/** The stream on which one producer process receives its answers. */
export function replyKey(producer: string): string {
  return `${QUEUE_PREFIX}.reply:${producer}`;
}

/** Requests of one producer that nobody waits for any more: a sorted set of sequence numbers by expiry (Redis' ms). */
export function cancelKey(producer: string): string {
  return `${QUEUE_PREFIX}.cancel:${producer}`;
}

/**
 * Which worker holds a sequence of a model version, until the sequence has been silent for too long. `key` is the one of
 * shared/infer/sequence.ts, any text.
 */
export function sequenceKey(model: string, version: string, key: string): string {
  return `${QUEUE_PREFIX}.sequence:${encodeModelName(model)}:${version}:${Buffer.from(key).toString('base64url')}`;
}

/** The heartbeat record of one worker. */
export function workerKey(worker: string): string {
  return `${QUEUE_PREFIX}.worker:${worker}`;
}

/** What one worker is doing at the moment. */
export function pulseKey(worker: string): string {
  return `${QUEUE_PREFIX}.pulse:${worker}`;
}

/** Set when the worker is asked to finish what it has and leave. */
export function drainKey(worker: string): string {
  return `${QUEUE_PREFIX}.drain:${worker}`;
}

/** The description of one model version, by the hash of its content. */
export function modelKey(sha256: string): string {
  return `${QUEUE_PREFIX}.model:${sha256}`;
}

/** The content of one file of a model folder, by its hash. */
export function fileKey(sha256: string): string {
  return `${QUEUE_PREFIX}.file:${sha256}`;
}

/** A file that a load brought along, by the id of that load and the hash of its content. */
export function controlFileKey(load: string, sha256: string): string {
  return `${QUEUE_PREFIX}.control-file:${load}:${sha256}`;
}

/** What became of one load or unload: a hash from worker id to its result. */
export function controlResultKey(id: string): string {
  return `${QUEUE_PREFIX}.control-result:${id}`;
}

/** A kept answer, by the hash of everything that it depends on. */
export function cachedResponseKey(hash: string): string {
  return `${QUEUE_PREFIX}.cache:${hash}`;
}

/** What one producer has in hand, of what is counted for all: a hash of counts. */
export function limitsOfProducerKey(producer: string): string {
  return `${QUEUE_PREFIX}.limits-of:${producer}`;
}

/** The record of one job of the Jobs API: a hash. */
export function jobRecordKey(id: string): string {
  return `${QUEUE_PREFIX}.job:${id}`;
}

/** The jobs of one tenant that are not over: a sorted set of job ids by deadline (Redis' ms). */
export function jobsOpenKeyOf(tenant: string): string {
  return `${JOBS_OPEN_KEY}:${tenant}`;
}

/** Bytes of the tensors of those. */
export function jobsBytesKeyOf(tenant: string): string {
  return `${QUEUE_PREFIX}.jobs-bytes:${tenant}`;
}

/** The answer of a job, a reply frame. */
export function jobResultKey(id: string): string {
  return `${QUEUE_PREFIX}.job-result:${id}`;
}

/** The job that an idempotency key stands for: a hash of its id and the fingerprint of its body. */
export function jobIdempotencyKey(sha256: string): string {
  return `${QUEUE_PREFIX}.job-key:${sha256}`;
}

/** Held by whoever asks for a change of the model. */
export function controlLockKey(model: string): string {
  return `${QUEUE_PREFIX}.control-lock:${encodeModelName(model)}`;
}

/** Held by the worker that is replacing the model. */
export function turnKey(model: string): string {
  return `${QUEUE_PREFIX}.turn:${encodeModelName(model)}`;
}
