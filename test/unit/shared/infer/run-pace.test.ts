import { expect, it } from 'vitest';
import { RunPace } from '../../../../shared/infer/run-pace.ts';
import { NO_TIME } from '../../../support/fake-dispatcher.ts';

const run = (ms: number, batchSize: number) => {
  return {
    ...NO_TIME,
    computeInputUs: 100,
    computeInferUs: ms * 1000 - 300,
    computeOutputUs: 200,
    batchSize,
    executions: 1,
  } as const;
};

it('knows what runs take lately, and follows at once when they grow', () => {
  const pace = new RunPace();
  expect([pace.runMs, pace.runRows]).toEqual([undefined, 0]);
  pace.note(run(10, 1));
  expect([pace.runMs, pace.runRows]).toEqual([10, 1]);
  pace.note(run(60, 16));
  expect([pace.runMs, pace.runRows]).toEqual([20, 16]);
  pace.note(run(10, 1));
  expect([pace.runMs, pace.runRows]).toEqual([18, 0.8 * 4 + 0.2]);
});

it('counts a run once, whoever else shared it', () => {
  const pace = new RunPace();
  pace.note({ ...run(10, 8), executions: 0 });
  expect(pace.runMs).toBeUndefined();
});
