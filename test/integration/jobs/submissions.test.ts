import { Queue } from 'bullmq';
import type { Redis } from 'ioredis';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { JobPool } from '../../../producer/service/jobs/job-queue.ts';
import type { Jobs } from '../../../producer/service/jobs/jobs.ts';
import { JOBS_OPEN_KEY, jobRecordKey, QUEUE_PREFIX, queueName } from '../../../shared/wire/names.ts';
import { until } from '../../support/redis.ts';
import type { FakeEngine } from '../../support/worker.ts';
import { type Pool, startPool } from '../queue/pool.ts';
import { jobOf, MODELS, producerJobs, submitted, textOf } from './kit.ts';

describe('a submission whose end its producer does not hear of', () => {
  let pool: Pool;
  let engine: FakeEngine;
  let jobs: Jobs | undefined;
  let other: Jobs;
  let redis: Redis;
  let queue: Queue;

  beforeEach(async () => {
    pool = await startPool();
    ({ engine } = await pool.worker(MODELS));
    other = await producerJobs(pool);
    redis = pool.redis.client();
    queue = new Queue(queueName('echo'), { connection: pool.redis.client(), prefix: QUEUE_PREFIX });
  });
  afterEach(async () => {
    engine.release();
    await queue.close();
    await Promise.all([jobs?.close(), other.close()]);
    jobs = undefined;
    await pool.close();
  });

  const refused = { code: 'UNAVAILABLE' };
  /** What stands in for one call to a queue. */
  const onQueue =
    (name: 'add' | 'remove', act: (call: () => Promise<unknown>) => Promise<unknown>) =>
    (through: JobPool): JobPool => ({
      ...through,
      queues: {
        of: (model, version) =>
          new Proxy(through.queues.of(model, version), {
            get: (target, key) => {
              const value: unknown = Reflect.get(target, key, target);
              if (typeof value !== 'function') return value;
              const call = value.bind(target) as (...args: unknown[]) => Promise<unknown>;
              return key === name ? (...args: unknown[]) => act(() => call(...args)) : call;
            },
          }),
      },
    });

  it('stands when the job is in its queue all the same, and is answered with it', async () => {
    jobs = await producerJobs(pool, {
      through: onQueue('add', async (add) => {
        await add();
        throw new Error('Connection is closed.');
      }),
    });
    engine.holding = true;
    const added = await jobs.submit(jobOf({ text: 'there', key: 'k' }));
    expect(added.created).toBe(true);
    await until('it runs', () => engine.held.length === 1);
    engine.release();
    expect((await other.wait(added.record.id, 10_000)).record.state).toBe('succeeded');
    expect(await textOf(other, added.record.id)).toBe('there');
  });

  it('leaves nothing when the job did not get into its queue', async () => {
    jobs = await producerJobs(pool, { through: onQueue('add', () => Promise.reject(new Error('no'))) });
    await expect(jobs.submit(jobOf({ key: 'k' }))).rejects.toMatchObject(refused);
    expect(await redis.zcard(JOBS_OPEN_KEY)).toBe(0);
    expect(await redis.keys('{millrace}.job:*')).toEqual([]);
    expect(await redis.keys('{millrace}.tensor:*')).toEqual([]);
    const again = await other.submit(jobOf({ key: 'k' }));
    expect(again.created).toBe(true);
  });

  it('stands when another producer has brought the job into its queue under the same key', async () => {
    jobs = await producerJobs(pool, {
      through: onQueue('add', async () => {
        expect((await other.submit(jobOf({ key: 'k', text: 'both' }))).created).toBe(false);
        throw new Error('no');
      }),
    });
    const added = await jobs.submit(jobOf({ key: 'k', text: 'both' }));
    expect((await other.wait(added.record.id, 10_000)).record).toMatchObject({ state: 'succeeded', runs: 1 });
    expect(await textOf(other, added.record.id)).toBe('both');
  });

  it('is refused to another producer under the same key when the first one takes it back meanwhile', async () => {
    const first = await other.submit(jobOf({ key: 'k', delayMs: 60_000 }));
    await queue.remove(first.record.id);
    jobs = await producerJobs(pool, {
      through: onQueue('add', async (add) => {
        await redis.del(jobRecordKey(first.record.id));
        return add();
      }),
    });
    await expect(jobs.submit(jobOf({ key: 'k' }))).rejects.toThrow('the job that the key stands for has just gone');
  });

  it('is taken back when its record is written after all', async () => {
    let lost = 0;
    jobs = await producerJobs(pool, {
      through: (through) => {
        const flaky = pool.redis.client();
        const evalsha = flaky.evalsha.bind(flaky) as (...args: unknown[]) => Promise<unknown>;
        const evaluate = flaky.eval.bind(flaky) as (...args: unknown[]) => Promise<unknown>;
        const loseFirst =
          (call: typeof evalsha) =>
          async (...args: unknown[]) => {
            const answer = await call(...args);
            if (lost === 0 && Array.isArray(answer)) {
              lost += 1;
              throw new Error('Connection is closed.');
            }
            return answer;
          };
        flaky.evalsha = loseFirst(evalsha);
        flaky.eval = loseFirst(evaluate);
        return { ...through, redis: flaky };
      },
    });
    await expect(jobs.submit(jobOf({ key: 'k' }))).rejects.toMatchObject(refused);
    expect(lost).toBe(1);
    await until('it is gone', async () => (await redis.zcard(JOBS_OPEN_KEY)) === 0);
    expect(await redis.keys('{millrace}.job:*')).toEqual([]);
    expect((await jobs.submit(jobOf({ key: 'k' }))).created).toBe(true);
  });

  it('can be cancelled while its queue does not answer', async () => {
    jobs = await producerJobs(pool, { through: onQueue('remove', () => new Promise(() => undefined)) });
    const id = await submitted(jobs, { delayMs: 60_000 });
    expect(await jobs.cancel(id)).toMatchObject({ cancelled: true, view: { record: { state: 'cancelled' } } });
  });
});
