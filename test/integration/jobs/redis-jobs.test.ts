import { Queue } from 'bullmq';
import type { Redis } from 'ioredis';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Jobs } from '../../../producer/service/jobs/jobs.ts';
import { createJobId, isOver } from '../../../shared/jobs/job.ts';
import { encodeBundle } from '../../../shared/wire/job.ts';
import { JOBS_EVENTS_KEY, JOBS_PRODUCER, jobRecordKey, QUEUE_PREFIX, queueName } from '../../../shared/wire/names.ts';
import { until } from '../../support/redis.ts';
import { type FakeEngine, requestOf } from '../../support/worker.ts';
import { type Pool, startPool } from '../queue/pool.ts';
import { jobOf, MODELS, producerJobs, submitted, textOf } from './kit.ts';

describe('jobs of a pool', () => {
  let pool: Pool;
  let engine: FakeEngine;
  let jobs: Jobs;
  let other: Jobs;
  let redis: Redis;
  let queue: Queue;

  beforeEach(async () => {
    pool = await startPool();
    ({ engine } = await pool.worker(MODELS));
    [jobs, other] = await Promise.all([producerJobs(pool), producerJobs(pool)]);
    redis = pool.redis.client();
    queue = new Queue(queueName('echo'), { connection: pool.redis.client(), prefix: QUEUE_PREFIX });
  });
  afterEach(async () => {
    engine.release();
    await queue.close();
    await Promise.all([jobs.close(), other.close()]);
    await pool.close();
  });

  const held = (count: number) => until(`${count} runs are held`, () => engine.held.length === count);

  it('can be awaited, followed and cancelled through a producer that has not seen them before', async () => {
    engine.holding = true;
    const id = await submitted(jobs, { text: 'here' });
    await held(1);
    const states: string[] = [];
    const followed = other.follow(id, ({ record }) => states.push(record.state), new Promise(() => undefined));
    const waiting = other.wait(id, 10_000);
    await until('it is followed', () => states.length === 1);
    engine.held[0]!.answer();
    expect((await waiting).record.state).toBe('succeeded');
    await followed;
    expect(states).toEqual(['running', 'succeeded']);
    expect(await textOf(other, id)).toBe('here');
    const waits = await submitted(jobs, { delayMs: 60_000 });
    expect((await other.cancel(waits)).cancelled).toBe(true);
    expect((await jobs.get(waits)).record.state).toBe('cancelled');
  });

  it('run once for a key that many use at the same moment, at two producers', async () => {
    const wishes = Array.from({ length: 40 }, (_, i) => (i % 2 === 0 ? jobs : other).submit(jobOf({ key: 'one' })));
    const added = await Promise.all(wishes);
    const ids = new Set(added.map(({ record }) => record.id));
    expect(ids.size).toBe(1);
    expect(added.filter(({ created }) => created)).toHaveLength(1);
    const [id] = [...ids];
    expect((await other.wait(id!, 10_000)).record).toMatchObject({ state: 'succeeded', runs: 1 });
    expect(engine.seen).toHaveLength(1);
    await until('the queue is empty', async () => (await queue.getJobCountByTypes('wait', 'active', 'delayed')) === 0);
    expect(engine.seen).toHaveLength(1);
  });

  it('get into their queue by the second attempt when the first producer died before', async () => {
    const first = await jobs.submit(jobOf({ key: 'k', text: 'again', delayMs: 60_000 }));
    // What is left when it dies between the record and the queue.
    await queue.remove(first.record.id);
    await redis.unlink(...(await redis.keys('{millrace}.tensor:*')));
    await redis.hset(jobRecordKey(first.record.id), 'due', first.record.createdMs);
    const again = await other.submit(jobOf({ key: 'k', text: 'again' }));
    expect(again).toMatchObject({ created: false, record: { id: first.record.id } });
    expect((await other.wait(first.record.id, 10_000)).record.state).toBe('succeeded');
    expect(await textOf(other, first.record.id)).toBe('again');
  });

  it('leave nothing in Redis behind the time to keep, whatever became of them', async () => {
    const before = await redis.keys('*');
    const ids: string[] = [];
    for (let i = 0; i < 200; i++) ids.push(await submitted(jobs, { keepMs: 1000, text: `job ${i}`, key: `key ${i}` }));
    const cancelled = await submitted(jobs, { keepMs: 1000, delayMs: 60_000, text: 'x'.repeat(20_000) });
    await jobs.cancel(cancelled);
    const expired = await submitted(jobs, { keepMs: 1000, delayMs: 100, timeoutMs: 1 });
    await Promise.all([...ids, expired].map((id) => jobs.wait(id, 15_000).catch(() => undefined)));
    await until('the records are gone', async () => (await redis.keys('{millrace}.job*')).join() === JOBS_EVENTS_KEY);
    await until('the tensors are gone', async () => (await redis.keys('{millrace}.tensor*')).length === 0);
    // The stream of events lives a minute after the last one, cancellations ten; BullMQ has its own few keys a queue.
    expect(await redis.pttl(JOBS_EVENTS_KEY)).toBeGreaterThan(0);
    const known = [JOBS_EVENTS_KEY, '{millrace}.cancel:jobs'];
    const left = (await redis.keys('*')).filter((key) => !before.includes(key) && !known.includes(key));
    expect(
      left.filter((key) => !/^\{millrace\}:echo:(meta|events|id|stalled-check|marker|failed|[\w-]+)$/.test(key)),
    ).toEqual([]);
    expect(await queue.getJobCountByTypes('wait', 'active', 'delayed', 'prioritized', 'completed', 'failed')).toBe(0);
  });

  it('leave their queue and take their tensors along when they are cancelled in line', async () => {
    const id = await submitted(jobs, { delayMs: 60_000, text: 'x'.repeat(20_000) });
    expect(await redis.keys('{millrace}.tensor:*')).toHaveLength(1);
    await other.cancel(id);
    expect(await queue.getJob(id)).toBeUndefined();
    expect(await redis.keys('{millrace}.tensor:*')).toEqual([]);
  });

  it('keep their tensors for as long as they may wait', async () => {
    await submitted(jobs, { delayMs: 3_600_000, timeoutMs: 3_600_000 });
    const [key] = await redis.keys('{millrace}.tensor:*');
    expect(await redis.pttl(key!)).toBeGreaterThan(7_200_000);
  });

  it('are expired by any producer while no worker looks at them', async () => {
    engine.holding = true;
    const id = await submitted(jobs, { timeoutMs: 300 });
    await held(1);
    engine.held[0]!.start();
    // A run that hangs: the worker says nothing.
    expect((await other.wait(id, 10_000)).record.state).toBe('expired');
    engine.held[0]!.answer();
    await until('the worker is done', async () => (await queue.getJobCountByTypes('active')) === 0);
    expect((await other.get(id)).record.state).toBe('expired');
    await expect(other.result(id)).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });

  it('are back in line when their worker leaves before it has begun', async () => {
    engine.holding = true;
    const id = await submitted(jobs);
    await held(1);
    const { engine: second } = await pool.worker(MODELS);
    await pool.leave(0);
    expect((await jobs.wait(id, 10_000)).record).toMatchObject({ state: 'succeeded', runs: 1 });
    expect(second.seen).toHaveLength(1);
  });

  describe('written by a stranger', () => {
    const id = createJobId(1);
    const wire = (part: unknown, producer = JOBS_PRODUCER) => {
      const request = requestOf('echo', Buffer.from('evil'));
      const item = { sequence: 1, callId: 'c', request, priority: 0, deadlineMs: Infinity };
      return { ...encodeBundle(producer, id, 'echo', [item]).data, job: part };
    };

    it.each([
      ['that name no record', { id: 'x', timeoutMs: 1 }, JOBS_PRODUCER, /no valid record/],
      ['with a key for a record', { id: '*', timeoutMs: 1 }, JOBS_PRODUCER, /no valid record/],
      ['without a timeout', { id }, JOBS_PRODUCER, /no valid record/],
      ['that name the record of another', { id: createJobId(2), timeoutMs: 1 }, JOBS_PRODUCER, /another job/],
      ['that belong to a producer', { id, timeoutMs: 1 }, 'somebody', /another job/],
      ['whose record is not there', { id, timeoutMs: 1 }, JOBS_PRODUCER, /has no record/],
    ])('fail with a reason: jobs %s', async (_, part, producer, reason) => {
      const job = await queue.add('infer', wire(part, producer));
      await until('it failed', async () => (await job.getState()) === 'failed');
      expect((await queue.getJob(job.id!))!.failedReason).toMatch(reason);
      expect(engine.seen).toEqual([]);
      expect(await redis.exists(jobRecordKey(id))).toBe(0);
    });

    it('cannot change what is over', async () => {
      const done = await submitted(jobs);
      const { record } = await jobs.wait(done, 10_000);
      expect(isOver(record.state)).toBe(true);
      const data = { ...wire({ id: done, timeoutMs: 1 }), bundle: done };
      const job = await queue.add('infer', data);
      await until('it is through', async () => (await job.getState()) === 'completed');
      expect((await jobs.get(done)).record).toEqual(record);
      expect(engine.seen).toHaveLength(1);
    });
  });
});
