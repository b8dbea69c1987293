import { expect, test } from 'vitest';
import { InferError } from '../../../../shared/errors.ts';
import { Call } from '../../../../shared/infer/call.ts';
import type { InferResponse } from '../../../../shared/infer/response.ts';
import { FailureStreak } from '../../../../worker/consumer/failure-streak.ts';
import { requestOf } from '../../../support/worker.ts';

function setUp(max: number) {
  let told = 0;
  const streak = new FailureStreak(max, () => (told += 1));
  const outcomes: (Error | undefined)[] = [];
  const infer = streak.wrap(() => {
    const error = outcomes.shift();
    return error ? Promise.reject(error) : Promise.resolve({} as InferResponse);
  });
  return {
    streak,
    told: () => told,
    run: async (...next: (Error | undefined)[]): Promise<void> => {
      outcomes.push(...next);
      for (const error of next) {
        const run = infer(requestOf('m', Buffer.from('x')), new Call('c', 0, Infinity));
        await (error ? expect(run).rejects.toBe(error) : run);
      }
    },
  };
}

const fault = new InferError('INTERNAL', 'CUDA failure 700');

test('tells once when so many requests in a row failed by a fault', async () => {
  const { run, told } = setUp(3);
  await run(fault, new Error('anything else that is thrown'));
  expect(told()).toBe(0);
  await run(fault);
  expect(told()).toBe(1);
  await run(fault, fault, fault, fault);
  expect(told()).toBe(1);
});

test('begins anew with each request that succeeds, and does not count what is wrong with requests', async () => {
  const { run, told, streak } = setUp(3);
  await run(fault, fault, undefined, fault, new InferError('INVALID_ARGUMENT', 'bad'), fault);
  expect(streak.length).toBe(2);
  expect(told()).toBe(0);
});
