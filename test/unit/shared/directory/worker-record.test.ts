import { describe, expect, it } from 'vitest';
import { BATCHING_REPORT as batching } from '../../../fixtures/batching-report.ts';
import { decodeWorkerRecord, encodeWorkerRecord } from '../../../../shared/directory/worker-record.ts';

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
