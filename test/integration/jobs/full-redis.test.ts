import { Queue } from 'bullmq';
import type { Redis } from 'ioredis';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Jobs } from '../../../producer/service/jobs/jobs.ts';
import { InferError } from '../../../shared/errors.ts';
import { QUEUE_PREFIX, queueName } from '../../../shared/wire/names.ts';
import { until } from '../../support/redis.ts';
import { callOf, type FakeEngine, requestOf } from '../../support/worker.ts';
import { knows, type Pool, startPool } from '../queue/pool.ts';
import { MODELS, producerJobs, submitted, textOf } from './kit.ts';

describe('jobs of a pool whose Redis is full', () => {
  let pool: Pool;
  let engine: FakeEngine;
  let jobs: Jobs;
  let redis: Redis;

  beforeEach(async () => {
    pool = await startPool();
    ({ engine } = await pool.worker(MODELS));
    jobs = await producerJobs(pool);
    redis = pool.redis.client();
    engine.holding = true;
  });
  afterEach(async () => {
    await redis.config('SET', 'maxmemory', '0');
    engine.release();
    await jobs.close();
    await pool.close();
  });

  const fill = () => redis.config('SET', 'maxmemory', '1');
  const tensors = () => redis.keys('{millrace}.tensor:*');

  it('keep their tensors when the worker makes room for answers, and run again with them', async () => {
    const dispatcher = await pool.producer();
    await knows(dispatcher, 'echo');
    const id = await submitted(jobs, { text: 'accepted' });
    await until('it is in hand', () => engine.held.length === 1);
    const answer = dispatcher.infer(requestOf('echo', Buffer.from('request')), callOf());
    await until('both are in hand', () => engine.held.length === 2);
    expect(await tensors()).toHaveLength(2);
    await fill();
    engine.held[1]!.answer();
    // The answer finds no room, so what the request does not need any more goes; the job may yet need its own.
    await until('there is room', async () => (await tensors()).length === 1);
    expect((await tensors())[0]).toMatch(new RegExp(`^\\{millrace\\}.tensor:jobs:${id}`));
    await redis.config('SET', 'maxmemory', '0');
    expect(Buffer.from((await answer).outputs[0]!.data).toString()).toBe('request');
    engine.held[0]!.fail(new InferError('UNAVAILABLE', 'not now'));
    await until('it runs again', () => engine.held.length === 3);
    engine.held[2]!.answer();
    expect((await jobs.wait(id, 10_000)).record).toMatchObject({ state: 'succeeded', runs: 2 });
    expect(await textOf(jobs, id)).toBe('accepted');
  });

  it('end with their answer, for which their own tensors make room', async () => {
    const id = await submitted(jobs, { text: 'x'.repeat(5000) });
    await until('it is in hand', () => engine.held.length === 1);
    await fill();
    engine.held[0]!.fail(new InferError('INVALID_ARGUMENT', 'no such row'));
    expect((await jobs.wait(id, 10_000)).record).toMatchObject({ state: 'failed', runs: 1 });
    expect(await tensors()).toEqual([]);
  });

  it('can be cancelled, which frees their tensors', async () => {
    const id = await submitted(jobs, { text: 'x'.repeat(5000), delayMs: 60_000 });
    await fill();
    expect(await jobs.cancel(id)).toMatchObject({ cancelled: true });
    expect(await tensors()).toEqual([]);
  });
});

describe('a job whose data in the queue nobody can read', () => {
  it.each([
    ['is not JSON', '{"v":', /not JSON/],
    ['is of another version', '{"v":2}', /version 1 expected, 2 given/],
    ['is for another model', '{"v":1,"producer":"jobs","bundle":"b","model":"other","items":[{}]}', /another model/],
  ])('fails with the reason when it %s', async (_, data, reason) => {
    const pool = await startPool();
    const { engine } = await pool.worker(MODELS);
    const jobs = await producerJobs(pool);
    const queue = new Queue(queueName('echo'), { connection: pool.redis.client(), prefix: QUEUE_PREFIX });
    const id = await submitted(jobs, { delayMs: 1000 });
    await pool.redis.client().hset(queue.toKey(id), 'data', data);
    const { record } = await jobs.wait(id, 15_000);
    expect(record).toMatchObject({ state: 'failed', error: { code: 'INVALID_ARGUMENT' } });
    expect(record.error?.message).toMatch(reason);
    expect(engine.seen).toEqual([]);
    await queue.close();
    await jobs.close();
    await pool.close();
  });
});
