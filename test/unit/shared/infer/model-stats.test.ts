import { describe, expect, it } from 'vitest';
import { InferError } from '../../../../shared/errors.ts';
import { ModelStats } from '../../../../shared/infer/model-stats.ts';
import type { Timings } from '../../../../shared/infer/response.ts';

const TIMINGS: Timings = {
  queueUs: 10,
  computeInputUs: 20,
  computeInferUs: 30,
  computeOutputUs: 40,
  batchSize: 5,
  executions: 1,
  release: 'full',
};

describe('ModelStats', () => {
  it('counts rows as inferences, and an execution once for all requests of its batch', () => {
    const stats = new ModelStats('m', '1');
    stats.recordSuccess(2, 100, TIMINGS);
    stats.recordSuccess(3, 100, { ...TIMINGS, executions: 0 });
    expect(stats).toMatchObject({ inferenceCount: 5, executionCount: 1, success: { count: 2, ns: 200_000 } });
    expect(stats.releases.full).toBe(1);
  });

  it('charges the time of the batch to every request, and once to its batch size', () => {
    const stats = new ModelStats('m', '1');
    stats.recordSuccess(2, 100, TIMINGS);
    stats.recordSuccess(3, 100, { ...TIMINGS, executions: 0 });
    expect([stats.queue, stats.computeInput, stats.computeInfer, stats.computeOutput]).toEqual(
      [10, 20, 30, 40].map((us) => ({ count: 2, ns: 2 * us * 1000 })),
    );
    expect([...stats.batchSizes]).toEqual([
      [5, { executions: 1, computeInputNs: 20_000, computeInferNs: 30_000, computeOutputNs: 40_000 }],
    ]);
  });

  it('counts a request without rows as one inference', () => {
    const stats = new ModelStats('m', '1');
    stats.recordSuccess(0, 1, TIMINGS);
    expect(stats.inferenceCount).toBe(1);
  });

  it.each([
    ['RESOURCE_EXHAUSTED', 'REJECTED'],
    ['DEADLINE_EXCEEDED', 'REJECTED'],
    ['CANCELLED', 'CANCELED'],
    ['INTERNAL', 'BACKEND'],
    ['INVALID_ARGUMENT', 'BACKEND'],
    ['UNAVAILABLE', 'OTHER'],
  ] as const)('counts %s as %s', (code, reason) => {
    const stats = new ModelStats('m', '1');
    stats.recordFailure(new InferError(code, ''), 7);
    expect(stats.failures).toEqual({ REJECTED: 0, CANCELED: 0, BACKEND: 0, OTHER: 0, [reason]: 1 });
    expect(stats.fail).toEqual({ count: 1, ns: 7000 });
  });

  it('counts a request that a queue policy turned away while it waited as rejected', () => {
    const stats = new ModelStats('m', '1');
    stats.recordFailure(new InferError('UNAVAILABLE', '', { refusedAt: 'queue' }), 7);
    expect(stats.failures).toEqual({ REJECTED: 1, CANCELED: 0, BACKEND: 0, OTHER: 0 });
    expect(stats.fail).toEqual({ count: 1, ns: 7000 });
  });

  it.each(['UNAVAILABLE', 'RESOURCE_EXHAUSTED'] as const)('counts %s at entry nowhere', (code) => {
    const stats = new ModelStats('m', '1');
    stats.recordFailure(new InferError(code, '', { refusedAt: 'entry' }), 7);
    expect(stats.failures).toEqual({ REJECTED: 0, CANCELED: 0, BACKEND: 0, OTHER: 0 });
    expect(stats.fail).toEqual({ count: 0, ns: 0 });
  });

  it('remembers when the last inference was, and is 0 before', () => {
    const stats = new ModelStats('m', '1');
    expect(stats.lastInferenceMs).toBe(0);
    stats.recordSuccess(1, 1, TIMINGS);
    expect(stats.lastInferenceMs).toBeGreaterThan(0);
  });
});
