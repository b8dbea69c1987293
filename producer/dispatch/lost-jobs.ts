import { jobId } from '../../shared/wire/queue-options.ts';
import type { ModelQueues } from './model-queues.ts';
import type { PendingRequest } from './pending-requests.ts';

/**
 * Requests that were in the queue and whose job Redis does not have any more, neither waiting nor finished: it was
 * restarted without its data.
 */
export async function findLostRequests(
  pending: Iterable<PendingRequest>,
  queues: ModelQueues,
  producer: string,
): Promise<PendingRequest[]> {
  const bundles = new Map<string, PendingRequest[]>();
  for (const request of pending) {
    if (!request.queued) continue;
    const requests = bundles.get(request.bundle);
    if (requests) requests.push(request);
    else bundles.set(request.bundle, [request]);
  }
  const lost: PendingRequest[] = [];
  for (const [bundle, requests] of bundles) {
    const [first] = requests;
    if (!first) continue;
    if (!(await queues.of(first.request.model, first.queueVersion, first.worker).getJob(jobId(producer, bundle))))
      lost.push(...requests);
  }
  return lost.filter((request) => !request.settled);
}
