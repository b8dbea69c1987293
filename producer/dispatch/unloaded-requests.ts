import type { InferError } from '../../shared/errors.ts';
import { jobId } from '../../shared/wire/queue-options.ts';
import type { ModelQueues } from './model-queues.ts';
import type { PendingRequest } from './pending-requests.ts';

export interface UnloadedRequest {
  readonly request: PendingRequest;
  /** What it is answered with. */
  readonly error: InferError;
}

/** A request in a queue; without an error it can still run. */
interface QueuedRequest {
  readonly request: PendingRequest;
  readonly error: InferError | undefined;
}

const WAITING: ReadonlySet<string> = new Set(['waiting', 'paused', 'prioritized', 'delayed']);

/**
 * Requests that wait in a queue for a model which the pool has unloaded. Their jobs are taken out of it; those that a worker
 * has in hand stay, it answers them.
 * @param refusalOf what a request for a model and version is told for that reason; undefined where there is none
 */
export async function takeUnloadedRequests(
  pending: Iterable<PendingRequest>,
  queues: ModelQueues,
  producer: string,
  refusalOf: (model: string, version: string) => InferError | undefined,
): Promise<UnloadedRequest[]> {
  const refusals = new Map<string, InferError | undefined>();
  const bundles = new Map<string, QueuedRequest[]>();
  for (const request of pending) {
    const { model, version } = request.request;
    const key = `${model}/${version}`;
    if (!refusals.has(key)) refusals.set(key, refusalOf(model, version));
    const error = refusals.get(key);
    // Those of sequences are told by the worker that they belong to.
    if (!request.queued || request.worker !== '') continue;
    const bundle = bundles.get(request.bundle) ?? [];
    bundles.set(request.bundle, bundle);
    bundle.push({ request, error });
  }
  const taken: UnloadedRequest[] = [];
  for (const [bundle, members] of bundles) {
    const requests = members.filter(isRefused);
    const [first] = requests;
    // Where one of it can still run, whoever takes it answers all.
    if (!first || requests.length < members.length) continue;
    const queue = queues.of(first.request.request.model, first.request.queueVersion);
    const id = jobId(producer, bundle);
    // One that is over has an answer on its way.
    if (!WAITING.has(await queue.getJobState(id))) continue;
    if ((await queue.remove(id)) === 1) taken.push(...requests);
  }
  return taken.filter(({ request }) => !request.settled);
}

function isRefused(queued: QueuedRequest): queued is UnloadedRequest {
  return queued.error !== undefined;
}
