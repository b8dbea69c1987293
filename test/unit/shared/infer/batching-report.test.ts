import { describe, expect, it } from 'vitest';
import { type BatchingReport, readBatchingReport } from '../../../../shared/infer/batching-report.ts';

const report: BatchingReport = {
  merges: true,
  maxRows: 8,
  delayMs: 1.5,
  auto: true,
  goalMs: 50,
  reason: 'because',
  curve: [
    { rows: 1, ms: 2 },
    { rows: 2, ms: 2.5 },
  ],
  company: { relative: 0.1, maxAbs: 3, cosine: 0.99, tolerance: 0.2 },
};

describe('readBatchingReport', () => {
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
