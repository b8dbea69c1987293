import { describe, expect, it } from 'vitest';
import type { ModelQueues } from '../../../../producer/dispatch/model-queues.ts';
import type { PendingRequest } from '../../../../producer/dispatch/pending-requests.ts';
import { takeUnloadedRequests } from '../../../../producer/dispatch/unloaded-requests.ts';
import { NotServed } from '../../../../shared/infer/not-served.ts';
import { jobId } from '../../../../shared/wire/queue-options.ts';
import { callOf, requestOf } from '../../../support/worker.ts';

const GONE = new NotServed('NOT_FOUND', 'version 1 is not found');

function queued(sequence: number, bundle: string, version: string, more: Partial<PendingRequest> = {}): PendingRequest {
  const request = { ...requestOf('m', Buffer.of(1)), version };
  const rest = { rows: 1, bytes: 1, queueVersion: '', worker: '', resends: 0, queued: true, settled: false };
  const promise = { resolve: () => undefined, reject: () => undefined, gauge: { count: 0 } };
  return { sequence, request, call: callOf(), bundle, ...rest, ...promise, ...more };
}

/** What is taken when version 1 is unloaded and any other may run, and which jobs are removed for it. */
async function take(pending: readonly PendingRequest[], states: Readonly<Record<string, string>>) {
  const removed: string[] = [];
  const queue = {
    getJobState: (id: string) => Promise.resolve(states[id] ?? 'unknown'),
    remove: (id: string) => Promise.resolve(removed.push(id) && 1),
  };
  const queues = { of: () => queue } as unknown as ModelQueues; // the two of its methods that are asked
  const refusalOf = (_model: string, version: string) => (version === '1' ? GONE : undefined);
  const taken = await takeUnloadedRequests(pending, queues, 'p', refusalOf);
  return { taken: taken.map(({ request }) => request.sequence), removed };
}

describe('requests for what was unloaded', () => {
  const [a, b] = [jobId('p', 'a'), jobId('p', 'b')];

  it('are taken out of their queue, a bundle at a time', async () => {
    const pending = [queued(1, 'a', '1'), queued(2, 'a', '1'), queued(3, 'b', '1')];
    expect(await take(pending, { [a]: 'waiting', [b]: 'delayed' })).toEqual({ taken: [1, 2, 3], removed: [a, b] });
  });

  it('stay where one of their bundle can still run', async () => {
    const pending = [queued(1, 'a', '1'), queued(2, 'a', ''), queued(3, 'a', '1')];
    expect(await take(pending, { [a]: 'waiting' })).toEqual({ taken: [], removed: [] });
  });

  it.each(['active', 'completed', 'failed', 'unknown'])(
    'stay in a job that is %s, which answers them',
    async (state) => {
      expect(await take([queued(1, 'a', '1')], { [a]: state })).toEqual({ taken: [], removed: [] });
    },
  );

  it('stay with the worker that holds their sequence, and while they are on their way', async () => {
    const pending = [queued(1, 'a', '1', { worker: 'w' }), queued(2, '', '1', { queued: false })];
    expect(await take(pending, { [a]: 'waiting' })).toEqual({ taken: [], removed: [] });
  });
});
