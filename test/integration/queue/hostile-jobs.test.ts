import { Job, Queue } from 'bullmq';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { packedTensorsKey, QUEUE_PREFIX, queueName, replyKey, tensorKey } from '../../../shared/wire/names.ts';
import { decodeReplies } from '../../../shared/wire/reply.ts';
import { until } from '../../support/redis.ts';
import { callOf, type FakeEngine, requestOf } from '../../support/worker.ts';
import { type Pool, startPool } from './pool.ts';

describe('a job that somebody wrote by hand (D19)', () => {
  let pool: Pool;
  let queue: Queue;
  let engine: FakeEngine;

  beforeEach(async () => {
    pool = await startPool();
    ({ engine } = await pool.worker([{ name: 'echo' }]));
    queue = new Queue(queueName('echo'), { connection: pool.redis.client(), prefix: QUEUE_PREFIX });
  });

  /** Whatever was done before, an ordinary request still works. */
  afterEach(async () => {
    const producer = await pool.producer();
    const response = await producer.infer(requestOf('echo', Buffer.from('fine')), callOf());
    expect(Buffer.from(response.outputs[0]!.data).toString()).toBe('fine');
    await queue.close();
    await pool.close();
  });

  const input = { name: 'x', datatype: 'UINT8', shape: [4], byteLength: 4, offset: 0 };
  const item = { sequence: 1, callId: 'c', inputs: [input] };
  const envelope = { v: 1, producer: 'somebody', bundle: '1', model: 'echo', items: [item] };

  async function failureOf(data: unknown, name = 'infer'): Promise<string> {
    const job = await queue.add(name, data);
    await until('the job failed', async () => (await job.getState()) === 'failed');
    const failed = await Job.fromId(queue, job.id!);
    expect(failed!.stacktrace).toEqual([]);
    return failed!.failedReason;
  }

  async function answerOf(data: object): Promise<unknown> {
    await queue.add('infer', data);
    const redis = pool.redis.client();
    const entries = await redis.xreadBuffer('BLOCK', 5000, 'STREAMS', replyKey('somebody'), '0-0');
    const [reply] = decodeReplies(entries![0]![1][0]![1][1]!);
    return 'error' in reply! ? reply.error : reply!.response;
  }

  it.each([
    ['is empty', {}, /version 1 expected/],
    ['is a list', [], /must be an object|version 1 expected/],
    ['is of the future', { ...envelope, v: 2 }, /version 1 expected, 2 given/],
    ['wants its reply everywhere', { ...envelope, producer: '*' }, /producer/],
    ['has a key for a bundle', { ...envelope, bundle: 'a:b' }, /bundle/],
    ['is for another model', { ...envelope, model: 'other' }, /another model/],
    ['holds nothing', { ...envelope, items: [] }, /1 to 1024 requests/],
    ['holds no requests', { ...envelope, items: [null] }, /sequence/],
    ['holds a request twice', { ...envelope, items: [item, item] }, /twice/],
  ])('fails with a reason when it %s', async (_, data, reason) => {
    expect(await failureOf(data)).toMatch(reason);
    expect(engine.seen).toEqual([]);
  });

  it.each([
    ['a shape that lies', { ...input, shape: [1000] }, /needs 1000 bytes, 4 were announced/],
    ['a shape that overflows', { ...input, shape: [2 ** 31, 2 ** 31, 4] }, /overflows/],
    ['a negative shape', { ...input, shape: [-4] }, /non-negative/],
    ['an unknown datatype', { ...input, datatype: 'float' }, /unknown datatype/],
    ['65 dimensions', { ...input, shape: new Array<number>(65).fill(1) }, /at most 64/],
  ])('answers %s with INVALID_ARGUMENT', async (_, bad, reason) => {
    const answer = await answerOf({ ...envelope, items: [{ ...item, inputs: [bad] }] });
    expect(answer).toMatchObject({ code: 'INVALID_ARGUMENT', message: expect.stringMatching(reason) as string });
    expect(engine.seen).toEqual([]);
  });

  it('answers a missing tensor with UNAVAILABLE', async () => {
    expect(await answerOf(envelope)).toMatchObject({ code: 'UNAVAILABLE' });
  });

  it('answers a tensor of another size with INVALID_ARGUMENT', async () => {
    await pool.redis.client().set(packedTensorsKey('somebody', '1'), 'abc');
    expect(await answerOf(envelope)).toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: expect.stringMatching(/announced with 4 bytes, 3 arrived/) as string,
    });
  });

  it('answers a tensor key of another type with UNAVAILABLE', async () => {
    await pool.redis.client().lpush(tensorKey('somebody', '1', 1, 0), 'abcd');
    const own = { ...input, offset: undefined };
    const answer = await answerOf({ ...envelope, items: [{ ...item, inputs: [own] }] });
    expect(answer).toMatchObject({ code: 'UNAVAILABLE' });
  });

  it('runs the good requests of a bundle beside a bad one', async () => {
    const redis = pool.redis.client();
    await redis.set(packedTensorsKey('somebody', '1'), 'abcd');
    const bad = { ...item, sequence: 2, inputs: [{ ...input, shape: [5] }] };
    await queue.add('infer', { ...envelope, items: [bad, item] });
    await until('both are answered', async () => {
      const entries = await redis.xrangeBuffer(replyKey('somebody'), '-', '+');
      return entries.flatMap(([, fields]) => decodeReplies(fields[1]!)).length === 2;
    });
    expect(engine.seen).toHaveLength(1);
  });

  it('fails when its name is 100 MB long', async () => {
    expect(await failureOf({}, 'n'.repeat(100 * 1024 * 1024))).toMatch(/version 1 expected/);
  });

  it('fails with a reason when what BullMQ parses is not usable JSON', { timeout: 60_000 }, async () => {
    const redis = pool.redis.client();
    const spoiled = { data: '{not json', opts: '{not json', progress: '{not json', parent: '{not json' };
    const ids: string[] = [];
    for (const [field, text] of [...Object.entries(spoiled), ['opts', 'null']] as [string, string][]) {
      const job = await queue.add('infer', envelope, { delay: 60_000 });
      await redis.hset(queue.toKey(job.id!), field, text);
      ids.push(job.id!);
    }
    for (const id of ids) await queue.getBackend().promote(id);
    const failed = async (): Promise<string[]> => redis.zrange(queue.toKey('failed'), '0', '-1');
    await until('the jobs failed', async () => (await failed()).length === ids.length, 40_000);
    for (const id of ids) expect(await redis.hget(queue.toKey(id), 'failedReason')).toMatch(/not JSON/);
  });
});
