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

it('tells the GPUs in use, as far as they are known', () => {
  const known = { index: 0, uuid: 'GPU-a', name: 'A100', totalBytes: 80, usedBytes: 8, utilization: 0.5 };
  const unknown = {
    index: 1,
    uuid: undefined,
    name: '',
    totalBytes: undefined,
    usedBytes: undefined,
    utilization: undefined,
  };
  const pulse = { ...PULSE, gpus: [known, unknown] };
  expect(decodeWorkerPulse(encodeWorkerPulse(pulse))).toEqual(pulse);
  const odd = { v: 1, requestsInHand: 0, loopDelayMs: 0, models: [] };
  const gpus = [1, { index: -1, name: 'x' }, { ...known, utilization: 7, usedBytes: 'much', uuid: 3 }];
  const read = decodeWorkerPulse(JSON.stringify({ ...odd, gpus }));
  expect(read?.gpus).toEqual([{ ...known, utilization: 1, usedBytes: undefined, uuid: undefined }]);
  expect(decodeWorkerPulse(JSON.stringify({ ...odd, gpus: {} }))).not.toHaveProperty('gpus');
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
