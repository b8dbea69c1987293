import { describe, expect, it } from 'vitest';
import { encodeBundle } from '../../../../shared/wire/job.ts';
import { parseQueueKeys, QueueKeys } from '../../../../shared/wire/queue-keys.ts';
import {
  changedTensors,
  decodeJob,
  jobContent,
  keepItemsSigned,
  signBundle,
} from '../../../../shared/wire/signed-job.ts';

const keys = new QueueKeys(parseQueueKeys(`k1 ${Buffer.alloc(32, 1).toString('base64')}`));
const tensor = (length: number) => ({
  name: 'x',
  datatype: 'UINT8' as const,
  shape: [length],
  data: Buffer.alloc(length, 5),
});

function bundle(deadlineMs = 5000) {
  const items = [10, 20_000].map((length, sequence) => ({
    sequence,
    callId: 'c',
    priority: 0,
    deadlineMs,
    request: { id: '', model: 'm', version: '', inputs: [tensor(length)], outputs: [], parameters: {} },
  }));
  return encodeBundle('p', 'b', 'm', items);
}
const throughRedis = (data: object): unknown => JSON.parse(JSON.stringify(data));

describe('a signed job', () => {
  it('is read with and without keys, in its own queue', () => {
    const { data } = signBundle(bundle(), 'p', 'b', 'm@2', keys);
    expect(decodeJob(throughRedis(data), 'm', 'm@2', keys).items).toHaveLength(2);
    expect(decodeJob(throughRedis(data), 'm', 'm@2', undefined).items).toHaveLength(2);
    expect(() => decodeJob(throughRedis(data), 'm', 'm', keys)).toThrow(/signature of the job is wrong/);
  });

  it('tells which of its tensors were changed', () => {
    const { data, payloads } = signBundle(bundle(), 'p', 'b', 'm', keys);
    const read = decodeJob(throughRedis(data), 'm', 'm', keys);
    const stored = new Map(payloads.map(({ key, data: bytes }) => [key, Buffer.from(bytes)]));
    expect(changedTensors(read, stored).size).toBe(0);
    stored.get('{millrace}.tensor:p:b:1:0')![19_999] = 6;
    expect([...changedTensors(read, stored)]).toEqual(['{millrace}.tensor:p:b:1:0']);
  });

  it('stays signed when a worker leaves some of its requests to others', () => {
    const { data } = signBundle(bundle(), 'p', 'b', 'm', keys);
    const kept = keepItemsSigned(throughRedis(data), [1], 'm', keys);
    expect(decodeJob(throughRedis(kept), 'm', 'm', keys).items.map(({ sequence }) => sequence)).toEqual([1]);
    expect(jobContent(kept)).toMatchObject({ items: [{ sequence: 1 }] });
  });

  it('needs a deadline in each request and the hash of each tensor', () => {
    const endless = signBundle(bundle(Infinity), 'p', 'b', 'm', keys);
    expect(() => decodeJob(throughRedis(endless.data), 'm', 'm', keys)).toThrow(/deadline/);
    const { data, payloads } = bundle();
    const half = signBundle({ data, payloads: payloads.slice(1) }, 'p', 'b', 'm', keys);
    expect(() => decodeJob(throughRedis(half.data), 'm', 'm', keys)).toThrow(/sha256/);
  });

  it.each([{}, { signed: 5 }, { signed: '{}' }, { signed: '{', ...keys.sign('job', 'm', '{') }, [], null, 'x'])(
    'is not %j',
    (data) => {
      expect(() => decodeJob(data, 'm', 'm', keys)).toThrow();
    },
  );
});
