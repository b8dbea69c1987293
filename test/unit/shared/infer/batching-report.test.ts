import { describe, expect, it } from 'vitest';
import { BATCHING_REPORT as report } from '../../../fixtures/batching-report.ts';
import { type BatchingReport, readBatchingReport } from '../../../../shared/infer/batching-report.ts';

describe('readBatchingReport', () => {
  it('reads a report without sizes', () => {
    const plain: { -readonly [Key in keyof BatchingReport]: BatchingReport[Key] } = { ...report };
    delete plain.sizes;
    expect(readBatchingReport(JSON.parse(JSON.stringify(plain)))).toEqual(plain);
  });

  it.each([report, { ...report, goalMs: undefined, company: undefined, curve: [] }])('reads what is written', (one) => {
    expect(readBatchingReport(JSON.parse(JSON.stringify(one)))).toEqual(one);
  });

  it.each([
    undefined,
    null,
    'text',
    [],
    {},
    { ...report, maxRows: '8' },
    { ...report, delayMs: -1 },
    { ...report, merges: 1 },
    { ...report, goalMs: 'soon' },
    { ...report, reason: undefined },
    { ...report, curve: {} },
  ])('reads nothing else: %j', (wire) => {
    expect(readBatchingReport(wire)).toBeUndefined();
  });

  it('leaves out points and differences that are none', () => {
    const wire = { ...report, curve: [{ rows: 1, ms: 2 }, { rows: 2 }, 3], company: { relative: 'much' } };
    expect(readBatchingReport(wire)).toEqual({ ...report, curve: [{ rows: 1, ms: 2 }], company: undefined });
  });
});
