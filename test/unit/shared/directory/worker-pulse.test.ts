import { expect, it } from 'vitest';
import { decodeWorkerPulse, encodeWorkerPulse, type WorkerPulse } from '../../../../shared/directory/worker-pulse.ts';
import { decodeWorkerRecord, encodeWorkerRecord } from '../../../../shared/directory/worker-record.ts';

const PULSE: WorkerPulse = {
  requestsInHand: 3,
  loopDelayMs: 12,
  models: new Map([
    ['a', { rowsInHand: 5, rowsPerSecond: 10.5, load: 0.25, lastJobMs: 1000 }],
    ['__proto__', { rowsInHand: 0, rowsPerSecond: undefined, load: 0, lastJobMs: undefined }],
  ]),
};

it('is read as it was written', () => {
  expect(decodeWorkerPulse(encodeWorkerPulse(PULSE))).toEqual(PULSE);
});

it.each(['', 'null', '{}', '{"v":2,"models":[]}', '{"v":1,"models":{}}', '{"v":1,"models":[],"requestsInHand":-1}'])(
  'knows nothing from %j',
  (text) => {
    expect(decodeWorkerPulse(text)).toBeUndefined();
  },
);

it('skips models that are none, and bounds a load', () => {
  const models = [1, ['x'], ['y', { rowsInHand: -1, load: 0 }], ['z', { rowsInHand: 1, load: 9, rowsPerSecond: 0 }]];
  const pulse = decodeWorkerPulse(JSON.stringify({ v: 1, requestsInHand: 0, loopDelayMs: 0, models }));
  expect([...pulse!.models]).toEqual([
    ['z', { rowsInHand: 1, load: 1, rowsPerSecond: undefined, lastJobMs: undefined }],
  ]);
});

it('a worker tells when it started and what it runs on; one of before has neither', () => {
  const old = { id: 'w1', host: 'h', pid: 7, draining: false, controlled: false, models: [] };
  expect(decodeWorkerRecord(encodeWorkerRecord(old))).toEqual(old);
  const record = { ...old, startedMs: 5, devices: [{ kind: 'cpu' as const, name: 'some CPU', count: 2 }] };
  expect(decodeWorkerRecord(encodeWorkerRecord(record))).toEqual(record);
  const odd = JSON.stringify({
    ...JSON.parse(encodeWorkerRecord(old)),
    devices: [{ kind: 'tpu', name: 'x', count: 1 }],
  });
  expect(decodeWorkerRecord(odd)).toEqual({ ...old, devices: [] });
});
