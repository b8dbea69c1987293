import { expect, it } from 'vitest';
import { RunPace } from '../../../../shared/infer/run-pace.ts';

it('knows what runs take lately, and follows at once when they grow', () => {
  const pace = new RunPace();
  expect([pace.runMs, pace.runRows]).toEqual([undefined, 0]);
  pace.note(10, 1);
  expect([pace.runMs, pace.runRows]).toEqual([10, 1]);
  pace.note(60, 16);
  expect([pace.runMs, pace.runRows]).toEqual([20, 16]);
  pace.note(10, 1);
  expect([pace.runMs, pace.runRows]).toEqual([18, 0.8 * 4 + 0.2]);
});
