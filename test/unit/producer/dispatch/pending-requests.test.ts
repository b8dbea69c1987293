import { describe, expect, it } from 'vitest';
import { type PendingRequest, PendingRequests } from '../../../../producer/dispatch/pending-requests.ts';
import { InferError } from '../../../../shared/errors.ts';
import { callOf, echo, requestOf } from '../../../support/worker.ts';

const request = requestOf('m', Buffer.of(1));
const response = echo(request);

function pending(sequence: number): PendingRequest & { readonly outcomes: unknown[] } {
  const outcomes: unknown[] = [];
  return {
    sequence,
    request,
    call: callOf(),
    rows: 1,
    bytes: 10,
    bundle: '',
    queueVersion: '',
    worker: '',
    resends: 0,
    queued: false,
    settled: false,
    resolve: (value) => outcomes.push(value),
    reject: (error) => outcomes.push(error.code),
    gauge: { count: 0 },
    outcomes,
  };
}

describe('pending requests', () => {
  it('take the first answer and only count the later ones', () => {
    const requests = new PendingRequests();
    const one = pending(1);
    requests.add(one);
    expect([requests.count, requests.bytes, one.gauge.count]).toEqual([1, 10, 1]);
    requests.settle({ sequence: 1, response });
    requests.settle({ sequence: 1, error: new InferError('UNAVAILABLE', 'gone') });
    requests.settle({ sequence: 2, response });
    expect(one.outcomes).toEqual([response]);
    expect(one.settled).toBe(true);
    expect([requests.count, requests.bytes, one.gauge.count, requests.lateAnswers]).toEqual([0, 0, 0, 2]);
  });

  it('drop the answer to a request that has failed before', () => {
    const requests = new PendingRequests();
    const one = pending(1);
    requests.add(one);
    expect(requests.fail(1, new InferError('CANCELLED', 'gone'))).toBe(true);
    expect(requests.fail(1, new InferError('INTERNAL', 'again'))).toBe(false);
    requests.settle({ sequence: 1, response });
    expect(one.outcomes).toEqual(['CANCELLED']);
  });

  it('fail all that is left when they close', async () => {
    const requests = new PendingRequests();
    const both = [pending(1), pending(2)];
    for (const one of both) requests.add(one);
    const closed = requests.close(5);
    requests.settle({ sequence: 1, response });
    await closed;
    expect(both.map((one) => one.outcomes)).toEqual([[response], ['UNAVAILABLE']]);
  });

  it('close as soon as the last one is answered', async () => {
    const requests = new PendingRequests();
    requests.add(pending(1));
    const closed = requests.close(3_600_000);
    requests.settle({ sequence: 1, response });
    await closed;
    expect(requests.count).toBe(0);
  });
});
