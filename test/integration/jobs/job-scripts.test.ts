import type { Redis } from 'ioredis';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { InferError } from '../../../shared/errors.ts';
import { createJobId, decodeJobRecord } from '../../../shared/jobs/job.ts';
import {
  finishJob,
  requeueJob,
  startJob,
  submitJob,
  type SubmittedJob,
  withdrawJob,
} from '../../../shared/jobs/job-scripts.ts';
import { JOBS_OPEN_KEY, jobIdempotencyKey, jobRecordKey, jobsOpenKeyOf } from '../../../shared/wire/names.ts';
import { type RedisServer, startRedis } from '../../support/redis.ts';

const QUEUED = '{millrace}:echo:queued';
const TENSORS = '{millrace}.tensor:jobs:t';
const KEY = jobIdempotencyKey('a'.repeat(64));

describe('the steps of a job', () => {
  let server: RedisServer;
  let redis: Redis;
  /** Sends each command twice, as a connection does that broke before the answer came. */
  let twice: Redis;
  let id: string;

  beforeAll(async () => {
    server = await startRedis();
    [redis, twice] = [server.client(), server.client()];
    const evalsha = twice.evalsha.bind(twice) as (...args: unknown[]) => Promise<unknown>;
    twice.evalsha = async (...args: unknown[]) => {
      await evalsha(...args);
      return evalsha(...args);
    };
  });
  afterAll(() => server.stop());
  beforeEach(async () => {
    await redis.config('SET', 'maxmemory', '0');
    await redis.flushall();
    id = createJobId(1000);
    await submitJob(twice, job(), 10);
    await redis.set(TENSORS, 'x'.repeat(1000));
  });

  const job = (more: Partial<SubmittedJob> = {}): SubmittedJob => ({
    id,
    nowMs: 1000,
    deadlineMs: 60_000,
    ttlMs: 90_000,
    idempotency: { key: KEY, fingerprint: 'f' },
    tenant: { name: 'shop', maxOpen: 5, maxBytes: 0 },
    bytes: 1000,
    fields: { model: 'echo', keep: 60_000, attempts: 3, payload: TENSORS },
    ...more,
  });
  const record = async () => decodeJobRecord(id, await redis.hgetall(jobRecordKey(id)));
  const isOpen = async () => [await redis.zcard(JOBS_OPEN_KEY), await redis.zcard(jobsOpenKeyOf('shop'))];
  const fill = () => redis.config('SET', 'maxmemory', '1');
  const cancelled = { state: 'cancelled', error: new InferError('CANCELLED', 'the job was cancelled') } as const;

  it('count once what is sent twice', async () => {
    expect(await isOpen()).toEqual([1, 1]);
    expect(await startJob(twice, id, 'one', 1001)).toEqual({ run: 'one' });
    expect(await record()).toMatchObject({ state: 'running', runs: 1 });
    await requeueJob(twice, id, 'one');
    expect(await record()).toMatchObject({ state: 'queued', runs: 0 });
    await startJob(twice, id, 'two', 1002);
    await requeueJob(twice, id, 'two', new InferError('UNAVAILABLE', 'not now'));
    await startJob(twice, id, 'three', 1003);
    expect(await record()).toMatchObject({ state: 'running', runs: 2 });
    expect(await finishJob(twice, id, 1004, { state: 'succeeded', frame: Buffer.from('answer') })).toBe(true);
    expect(await finishJob(twice, id, 1005, cancelled)).toBe(false);
    expect(await record()).toMatchObject({ state: 'succeeded', runs: 2 });
    expect(await isOpen()).toEqual([0, 0]);
    expect(await redis.exists(TENSORS)).toBe(0);
  });

  it('count the bytes of the open jobs of a tenant, and forget them with the last one', async () => {
    const tenant = { name: 'shop', maxOpen: 5, maxBytes: 2000 };
    const second = createJobId(2);
    const submit = (bytes: number, of = second) =>
      submitJob(twice, job({ id: of, tenant, idempotency: undefined, bytes }), 10);
    expect(await submit(1001)).toEqual({ kind: 'bytes', open: 1000 });
    expect(await submit(1000)).toEqual({ kind: 'created' });
    expect(await submit(1, createJobId(3))).toEqual({ kind: 'bytes', open: 2000 });
    await finishJob(twice, id, 1004, cancelled);
    expect(await redis.get('{millrace}.jobs-bytes:shop')).toBe('1000');
    expect(await withdrawJob(twice, second, QUEUED)).toBe(true);
    expect(await redis.exists('{millrace}.jobs-bytes:shop')).toBe(0);
  });

  it('count the bytes of a job that is past its deadline until it is over', async () => {
    const tenant = { name: 'shop', maxOpen: 5, maxBytes: 2000 };
    const late = 60_001;
    const submit = (of: string) =>
      submitJob(redis, job({ id: of, tenant, idempotency: undefined, nowMs: late, deadlineMs: late + 1000 }), 10);
    expect(await submit(createJobId(2))).toEqual({ kind: 'created' });
    expect(await submit(createJobId(3))).toEqual({ kind: 'bytes', open: 2000 });
    await finishJob(redis, id, late, cancelled);
    expect(await redis.get('{millrace}.jobs-bytes:shop')).toBe('1000');
    expect(await submit(createJobId(3))).toEqual({ kind: 'created' });
    expect(await submit(createJobId(4))).toEqual({ kind: 'bytes', open: 2000 });
  });

  it('end a job whose tensors somebody has replaced by something else', async () => {
    await redis.del(TENSORS);
    await redis.hset(TENSORS, 'a', 'b');
    expect(await finishJob(redis, id, 1003, cancelled)).toBe(true);
    expect(await redis.exists(TENSORS)).toBe(0);
  });

  it('give nothing back for a run that another one has taken over', async () => {
    await startJob(redis, id, 'one', 1001);
    await requeueJob(redis, id, 'one');
    await startJob(redis, id, 'two', 1002);
    await requeueJob(redis, id, 'one');
    expect(await record()).toMatchObject({ state: 'running', runs: 1 });
  });

  it('go on in a full Redis, and free what they can', async () => {
    await fill();
    await expect(redis.set('more', 'x')).rejects.toThrow('OOM');
    await startJob(redis, id, 'one', 1001);
    await requeueJob(redis, id, 'one', new InferError('INTERNAL', 'a hiccup'));
    await startJob(redis, id, 'two', 1002);
    const end = { state: 'succeeded', frame: Buffer.alloc(900) } as const;
    expect(await finishJob(redis, id, 1003, end)).toBe(true);
    expect(await redis.exists(TENSORS)).toBe(0);
  });

  it('cancel in a full Redis', async () => {
    await fill();
    expect(await finishJob(redis, id, 1003, cancelled)).toBe(true);
    expect(await redis.exists(TENSORS)).toBe(0);
  });

  it('keep the tensors while a full Redis has no room for the answer', async () => {
    await startJob(redis, id, 'one', 1001);
    await fill();
    const end = { state: 'succeeded', frame: Buffer.alloc(2000) } as const;
    await expect(finishJob(redis, id, 1003, end)).rejects.toThrow('OOM');
    expect(await redis.exists(TENSORS)).toBe(1);
    expect(await record()).toMatchObject({ state: 'running' });
  });

  it.each([
    ['key', undefined],
    ['tenant', { name: 'shop', maxOpen: 5, maxBytes: 0 }],
  ])('take nothing new in a full Redis, with a %s or without', async (_, tenant) => {
    await fill();
    await expect(
      submitJob(redis, { ...job({ tenant, idempotency: undefined }), id: createJobId(2) }, 10),
    ).rejects.toThrow('OOM');
  });

  it('withdraw a job that is not in its queue, with all that belongs to it', async () => {
    expect(await withdrawJob(twice, id, QUEUED)).toBe(true);
    expect(await redis.keys('{millrace}.job*')).toEqual(['{millrace}.jobs-events']);
    expect(await redis.exists(TENSORS)).toBe(0);
  });

  it('withdraw a job that is in its queue without its tensors', async () => {
    await redis.hset(QUEUED, 'data', '{}');
    await redis.del(TENSORS);
    expect(await withdrawJob(redis, id, QUEUED)).toBe(true);
  });

  it.each<[string, () => Promise<unknown>]>([
    ['is in its queue', () => redis.hset(QUEUED, 'data', '{}')],
    ['runs', () => startJob(redis, id, 'one', 1001)],
    [
      'has run and waits for its next attempt',
      async () => {
        await startJob(redis, id, 'one', 1001);
        await requeueJob(redis, id, 'one', new InferError('INTERNAL', 'a hiccup'));
      },
    ],
    ['is over', () => finishJob(redis, id, 1002, { state: 'succeeded', frame: Buffer.from('answer') })],
  ])('never withdraw a job that %s', async (_, act) => {
    await act();
    const before = await record();
    expect(await withdrawJob(twice, id, QUEUED)).toBe(false);
    expect(await record()).toEqual(before);
    expect(await redis.exists(KEY)).toBe(1);
  });
});
