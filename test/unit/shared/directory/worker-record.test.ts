import { describe, expect, it } from 'vitest';
import type { BatchingReport } from '../../../../shared/infer/batching-report.ts';
import { decodeWorkerRecord, encodeWorkerRecord } from '../../../../shared/directory/worker-record.ts';

const batching: BatchingReport = {
  merges: true,
  maxRows: 8,
  delayMs: 1.5,
  auto: true,
  goalMs: 50,
  reason: 'because',
  curve: [{ rows: 1, ms: 2 }],
  company: { relative: 0.1, maxAbs: 3, cosine: 0.99, tolerance: 0.2 },
};
const record = {
  id: 'w1',
  host: 'h',
  pid: 7,
  draining: false,
  controlled: true,
  models: [{ name: 'm', version: '1', state: 'READY' as const, reason: '', loadSeconds: 1, batching }],
};

describe('the record of a worker', () => {
  it('says what becomes of the requests of models that batch', () => {
    expect(decodeWorkerRecord(encodeWorkerRecord(record))).toEqual(record);
  });

  it('is read without a report that is none', () => {
    const text = encodeWorkerRecord(record).replace('"merges":true', '"merges":"yes"');
    expect(decodeWorkerRecord(text).models[0]).toEqual({ ...record.models[0], batching: undefined });
  });
});
