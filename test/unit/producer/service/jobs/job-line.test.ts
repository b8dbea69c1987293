import { expect, it } from 'vitest';
import { JobLine } from '../../../../../producer/service/jobs/job-line.ts';
import { until } from '../../../../support/redis.ts';

it('runs by priority and then by arrival, 128 at one time', async () => {
  const started: string[] = [];
  const ends: (() => void)[] = [];
  const line = new JobLine<string>((job) => {
    started.push(job);
    return new Promise((resolve) => ends.push(resolve));
  });
  for (let i = 0; i < 128; i++) line.push(`first ${i}`, 0);
  await until('all places are taken', () => started.length === 128);
  expect(started[0]).toBe('first 0');
  for (const [job, priority] of [
    ['c', 5],
    ['a', 0],
    ['d', 5],
    ['b', 1],
    ['gone', 1],
  ] as const) {
    line.push(job, priority);
  }
  expect(['a', 'b', 'gone', 'c', 'd'].map((job) => line.position(job))).toEqual([0, 1, 2, 3, 4]);
  line.remove('gone');
  expect(line.position('gone')).toBeUndefined();
  expect(line.position('first 0')).toBeUndefined();
  for (const end of ends.splice(0, 4)) end();
  await until('four more run', () => started.length === 132);
  expect(started.slice(128)).toEqual(['a', 'b', 'c', 'd']);
});
