import type { Redis } from 'ioredis';
import { InferError } from '../../shared/errors.ts';
import { Call } from '../../shared/infer/call.ts';
import type { InferFn } from '../../shared/infer/ports.ts';
import type { RunPace } from '../../shared/infer/run-pace.ts';
import type { RedisLink } from '../../shared/runtime/redis-link.ts';
import { sequenceLost, sequencePartOf } from '../../shared/infer/sequence.ts';
import { type BundleItem, type DecodedBundle, payloadKeys, requestOf } from '../../shared/wire/job.ts';
import type { QueueKeys } from '../../shared/wire/queue-keys.ts';
import type { Reply } from '../../shared/wire/reply.ts';
import { changedTensors } from '../../shared/wire/signed-job.ts';
import { cancelledError, readCancelled } from './cancel-watch.ts';
import { GIVEN_BACK, type HeldRequests } from './held-requests.ts';
import type { ReplySender } from './reply-sender.ts';

export interface BundleContext {
  readonly redis: Redis;
  readonly link: RedisLink;
  readonly infer: InferFn;
  readonly replies: Pick<ReplySender, 'send'>;
  readonly held: HeldRequests;
  /** Whether the worker gives work back instead of starting it. */
  readonly draining: () => boolean;
  /** The requests are for this worker alone: none goes back, and each is answered, waited for or not. */
  readonly own: boolean;
  /** Told of each answer. */
  readonly pace: RunPace;
  /** Where jobs are signed. */
  readonly keys?: QueueKeys | undefined;
}

export interface BundleOutcome {
  /** Requests that were answered with a result. */
  succeeded: number;
  /** Requests that were answered with an error. */
  failed: number;
  /** Requests that nobody waits for any more. */
  dropped: number;
  /** Requests that never became a call: hostile, broken or without their tensors. */
  refused: number;
  firstRefusal: InferError | undefined;
  /** Why the first of those failed that were answered with an error. */
  firstFailure: InferError | undefined;
  /** Sequence numbers of requests that were not started and go back to the queue. */
  readonly unstarted: Set<number>;
}

/**
 * Runs every request of a bundle and publishes the answers. Resolves when Redis has acknowledged the last of them; only
 * then may the job be completed, and only after that its tensors removed. In that order a duplicate run, which may find
 * the tensors gone, can never answer before the good run did.
 * Rejects only when Redis fails; what is wrong with a request is an answer.
 * @param tensors told when they have been read, so that nothing of the bundle needs them in Redis any more
 */
export async function runBundle(
  context: BundleContext,
  bundle: DecodedBundle,
  tensors?: { read: boolean },
): Promise<BundleOutcome> {
  const outcome: BundleOutcome = {
    succeeded: 0,
    failed: 0,
    dropped: 0,
    refused: 0,
    firstRefusal: undefined,
    firstFailure: undefined,
    unstarted: new Set(),
  };
  const sends: Promise<void>[] = [];
  const refuse = (sequence: number, error: InferError): void => {
    outcome.refused += 1;
    outcome.firstRefusal ??= error;
    sends.push(context.replies.send(bundle.producer, { sequence, error }));
  };
  for (const { sequence, error } of bundle.refused) refuse(sequence, error);

  const { live, dead, payloads } = await fetchLive(context, bundle);
  if (tensors) tensors.read = true;
  const changed = bundle.digests ? changedTensors(bundle, payloads) : NONE;
  outcome.dropped += dead.length;
  if (context.own) {
    for (const { sequence } of dead)
      sends.push(context.replies.send(bundle.producer, { sequence, error: cancelledError() }));
  }
  for (const item of live) {
    if (context.draining() && context.own) {
      outcome.failed += 1;
      sends.push(context.replies.send(bundle.producer, { sequence: item.sequence, error: leftBehind(item) }));
    } else if (context.draining()) outcome.unstarted.add(item.sequence);
    else if (changed.size > 0 && item.inputs.some(({ key }) => changed.has(key))) {
      refuse(item.sequence, tensorsChanged(context.keys));
    } else sends.push(runItem(context, bundle.producer, item, payloads, outcome, refuse));
  }
  await Promise.all(sends);
  return outcome;
}

const NONE: ReadonlySet<string> = new Set();

/** Whoever sent the request may send it again. */
function tensorsChanged(keys: QueueKeys | undefined): InferError {
  const text = 'the tensors of the request were changed while they lay in the queue';
  keys?.refuse('tensors', text);
  return new InferError('UNAVAILABLE', text);
}

/**
 * Requests whose deadline has passed or whose caller has gone leave here. Who has gone is asked in the same round trip
 * that fetches the tensors: it is one for every bundle, and they are few.
 */
async function fetchLive(
  { redis, link }: BundleContext,
  { producer, items }: DecodedBundle,
): Promise<{ live: BundleItem[]; dead: BundleItem[]; payloads: ReadonlyMap<string, Buffer> }> {
  const nowMs = link.now();
  const inTime = items.filter((item) => item.deadlineMs > nowMs);
  const sequences = inTime.map((item) => item.sequence);
  const [cancelled, payloads] =
    inTime.length === 0
      ? [new Set<number>(), new Map<string, Buffer>()]
      : await Promise.all([readCancelled(redis, producer, sequences), readPayloads(redis, inTime)]);
  const isLive = (item: BundleItem): boolean => item.deadlineMs > nowMs && !cancelled.has(item.sequence);
  return { live: items.filter(isLive), dead: items.filter((item) => !isLive(item)), payloads };
}

async function readPayloads(redis: Redis, items: readonly BundleItem[]): Promise<Map<string, Buffer>> {
  const keys = payloadKeys(items);
  const payloads = new Map<string, Buffer>();
  if (keys.length === 0) return payloads;
  const values = await redis.mgetBuffer(keys);
  keys.forEach((key, index) => {
    const value = values[index];
    if (value) payloads.set(key, value);
  });
  return payloads;
}

async function runItem(
  { infer, link, held, replies, own, pace }: BundleContext,
  producer: string,
  item: BundleItem,
  payloads: ReadonlyMap<string, Buffer>,
  outcome: BundleOutcome,
  refuse: (sequence: number, error: InferError) => void,
): Promise<void> {
  const { sequence } = item;
  let request;
  try {
    request = requestOf(item, payloads);
  } catch (error) {
    refuse(sequence, InferError.from(error));
    return;
  }
  const call = new Call(item.callId, performance.now(), link.toLocal(item.deadlineMs), item.priority);
  const holding = { producer, sequence, call };
  held.add(holding);
  let reply: Reply | undefined;
  try {
    const response = await infer(request, call);
    reply = { sequence, response };
    outcome.succeeded += 1;
    pace.note(response.timings);
  } catch (error) {
    const givenBack = call.error === GIVEN_BACK && !call.started;
    if (givenBack && own) {
      outcome.failed += 1;
      reply = { sequence, error: leftBehind(item) };
    } else if (givenBack) outcome.unstarted.add(sequence);
    else if (call.error?.code === 'CANCELLED') {
      outcome.dropped += 1;
      if (own) reply = { sequence, error: cancelledError() };
    } else {
      const failure = InferError.from(error);
      outcome.failed += 1;
      outcome.firstFailure ??= failure;
      reply = { sequence, error: failure };
    }
  } finally {
    held.delete(holding);
  }
  if (reply) await replies.send(producer, reply);
}

/** What a request of a sequence is told when the worker that holds the sequence leaves. */
export function leftBehind({ request }: Pick<BundleItem, 'request'>): InferError {
  try {
    return sequenceLost(request.model, sequencePartOf(request), 'the worker that held it has left');
  } catch (error) {
    return InferError.from(error); // it belongs to no sequence, which any worker would refuse
  }
}
