import { expect, it } from 'vitest';
import { LatencyHistogram } from '../../../../shared/infer/latency-histogram.ts';

it('counts each duration in every bucket whose bound it does not exceed', () => {
  const histogram = new LatencyHistogram([1, 10, 100]);
  for (const ms of [0.5, 1, 2, 100, 101]) histogram.record(ms);
  expect(histogram.cumulative()).toEqual([2, 3, 4]);
  expect(histogram.count).toBe(5);
  expect(histogram.sumMs).toBe(204.5);
});
