import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { InferError } from '../../../shared/errors.ts';
import { until } from '../../support/redis.ts';
import { callOf, requestOf } from '../../support/worker.ts';
import { knows, type Pool, startPool } from './pool.ts';

describe('a request that waits in the queue', () => {
  let pool: Pool;
  beforeEach(async () => {
    pool = await startPool();
  });
  afterEach(() => pool.close());

  it('is answered by a worker that comes later', async () => {
    const first = await pool.worker([{ name: 'echo' }]);
    const producer = await pool.producer();
    await first.consumer.close(1000);
    await until('the producer saw it leave', () => !producer.catalog.ready());
    const answer = producer.infer(requestOf('echo', Buffer.from('late')), callOf());
    await pool.worker([{ name: 'echo' }]);
    expect(Buffer.from((await answer).outputs[0]!.data).toString()).toBe('late');
  });

  it('gets UNAVAILABLE with that reason at its deadline when no worker is there', async () => {
    const first = await pool.worker([{ name: 'echo' }]);
    const producer = await pool.producer();
    await first.consumer.close(1000);
    await until('the producer saw it leave', () => !producer.ready().ok);
    expect(producer.ready()).toEqual({ ok: false, reason: 'no worker is connected' });
    await expect(producer.infer(requestOf('echo', Buffer.of(1)), callOf(200))).rejects.toMatchObject({
      code: 'UNAVAILABLE',
      message: expect.stringMatching(/no worker serves model 'echo' now: the request waited \d+ ms/) as string,
    });
    expect(producer.pending('echo', '1')).toBe(0);
  });

  it('is refused at once when no worker has ever had the model', async () => {
    const producer = await pool.producer();
    await expect(producer.infer(requestOf('nobody', Buffer.of(1)), callOf())).rejects.toMatchObject({
      code: 'NOT_FOUND',
    });
  });

  it('gets DEADLINE_EXCEEDED when a worker is there and too slow', async () => {
    const { engine } = await pool.worker([{ name: 'echo' }]);
    engine.holding = true;
    const producer = await pool.producer();
    await expect(producer.infer(requestOf('echo', Buffer.of(1)), callOf(300))).rejects.toMatchObject({
      code: 'DEADLINE_EXCEEDED',
    });
  });

  it('never reaches the engine when its deadline passes first', async () => {
    const first = await pool.worker([{ name: 'echo' }]);
    const producer = await pool.producer();
    await first.consumer.close(1000);
    await expect(producer.infer(requestOf('echo', Buffer.from('dead')), callOf(100))).rejects.toThrow();
    const { engine } = await pool.worker([{ name: 'echo' }]);
    await producer.infer(requestOf('echo', Buffer.from('alive')), callOf());
    expect(engine.seen.map((request) => Buffer.from(request.inputs[0]!.data).toString())).toEqual(['alive']);
  });

  it('never reaches the engine when its caller leaves first', async () => {
    const first = await pool.worker([{ name: 'echo' }]);
    const producer = await pool.producer();
    await first.consumer.close(1000);
    const call = callOf(60_000);
    const answer = producer.infer(requestOf('echo', Buffer.from('dead')), call);
    await until('it lies in the queue', async () => (await producer.queues()[0]!.getWaitingCount()) === 1);
    call.cancel(new InferError('CANCELLED', 'the client went away'));
    await expect(answer).rejects.toMatchObject({ code: 'CANCELLED' });
    const { engine } = await pool.worker([{ name: 'echo' }]);
    await producer.infer(requestOf('echo', Buffer.from('alive')), callOf());
    expect(engine.seen.map((request) => Buffer.from(request.inputs[0]!.data).toString())).toEqual(['alive']);
  });

  it('shares a job with others once requests have waited long for the model, and has one alone before', async () => {
    const { engine } = await pool.worker([{ name: 'echo' }]);
    const producer = await pool.producer({ bundleWindowMs: 0 });
    const sendTen = async (): Promise<number> => {
      const before = await producer.queues()[0]!.getCompletedCount();
      const answers = [];
      engine.holding = true;
      for (let i = 0; i < 10; i++) {
        answers.push(producer.infer(requestOf('echo', Buffer.of(i)), callOf()));
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
      await new Promise((resolve) => setTimeout(resolve, 500));
      engine.release();
      await Promise.all(answers);
      await until('the jobs are over', async () => (await producer.queues()[0]!.getActiveCount()) === 0);
      return (await producer.queues()[0]!.getCompletedCount()) - before;
    };
    expect(await sendTen()).toBe(10);
    expect(await sendTen()).toBeLessThan(10);
  });

  it('does not wait for a long one before it where the model has several instances', async () => {
    const { engine } = await pool.worker([{ name: 'echo', instances: 2 }]);
    const producer = await pool.producer();
    // Short bundles, after which a worker with one instance would not fetch ahead.
    for (let byte = 0; byte < 20; byte += 1) await producer.infer(requestOf('echo', Buffer.of(byte)), callOf());
    engine.holding = true;
    const long = producer.infer(requestOf('echo', Buffer.of(10)), callOf());
    await until('the engine has the first', () => engine.held.length === 1);
    engine.held[0]!.start();
    const next = producer.infer(requestOf('echo', Buffer.of(11)), callOf());
    await until('the engine has the second too', () => engine.held.length === 2);
    engine.held[1]!.answer();
    expect((await next).outputs[0]!.data[0]).toBe(11);
    engine.held[0]!.answer();
    expect((await long).outputs[0]!.data[0]).toBe(10);
  });

  it('leaves the engine when its caller goes while it waits for its turn there', async () => {
    const { engine } = await pool.worker([{ name: 'echo' }]);
    engine.holding = true;
    const producer = await pool.producer();
    const call = callOf(60_000);
    const answer = producer.infer(requestOf('echo', Buffer.of(1)), call);
    await until('the engine has it', () => engine.held.length === 1);
    call.cancel(new InferError('CANCELLED', 'the client went away'));
    await expect(answer).rejects.toMatchObject({ code: 'CANCELLED' });
    await until('the engine is told', () => engine.held[0]!.call.error?.code === 'CANCELLED');
    await until('the job is over', async () => (await producer.queues()[0]!.getActiveCount()) === 0);
  });

  it('is refused when too many wait already, by number and by bytes', async () => {
    const { engine } = await pool.worker([{ name: 'echo' }]);
    engine.holding = true;
    const producer = await pool.producer({ maxRequestsInFlight: 2, maxBytesInFlight: 1000 });
    await expect(producer.infer(requestOf('echo', Buffer.alloc(1001)), callOf())).rejects.toMatchObject({
      code: 'RESOURCE_EXHAUSTED',
    });
    const waiting = [1, 2].map((byte) => producer.infer(requestOf('echo', Buffer.of(byte)), callOf()));
    await expect(producer.infer(requestOf('echo', Buffer.of(3)), callOf())).rejects.toMatchObject({
      code: 'RESOURCE_EXHAUSTED',
    });
    expect(producer.pending('echo', '1')).toBe(2);
    await until('the engine has them', () => engine.held.length === 2);
    engine.release();
    await Promise.all(waiting);
    expect(producer.stats()).toMatchObject({ requestsInFlight: 0, bytesInFlight: 0 });
  });

  it('is answered each time when the same id is used twice (D12)', async () => {
    await pool.worker([{ name: 'echo' }]);
    const producers = [await pool.producer(), await pool.producer()];
    const answers = await Promise.all(
      [0, 1, 2, 3].map((byte) =>
        producers[byte % 2]!.infer(requestOf('echo', Buffer.of(byte), { id: 'same' }), callOf()),
      ),
    );
    expect(answers.map((answer) => answer.outputs[0]!.data[0])).toEqual([0, 1, 2, 3]);
  });

  it('is failed when the producer closes, and later ones are refused', async () => {
    const { engine } = await pool.worker([{ name: 'echo' }]);
    engine.holding = true;
    const producer = await pool.producer();
    const answer = producer.infer(requestOf('echo', Buffer.of(1)), callOf());
    answer.catch(() => undefined);
    const closed = producer.close(50);
    await expect(producer.infer(requestOf('echo', Buffer.of(2)), callOf())).rejects.toMatchObject({
      code: 'UNAVAILABLE',
    });
    await closed;
    await expect(answer).rejects.toMatchObject({
      code: 'UNAVAILABLE',
      message: expect.stringMatching(/shut down/) as string,
    });
  });

  it('is answered during the grace time of a closing producer', async () => {
    const { engine } = await pool.worker([{ name: 'echo' }]);
    engine.holding = true;
    const producer = await pool.producer();
    const answer = producer.infer(requestOf('echo', Buffer.of(7)), callOf());
    await until('the engine has it', () => engine.held.length === 1);
    const closed = producer.close(10_000);
    engine.release();
    expect((await answer).outputs[0]!.data[0]).toBe(7);
    await closed;
  });

  it('leaves nothing behind after 10,000 requests, some of them cancelled (D10, D18)', async () => {
    await pool.worker([{ name: 'echo', maxBatchSize: 32 }]);
    const producer = await pool.producer();
    await knows(producer, 'echo');
    const big = Buffer.alloc(20_000);
    for (let round = 0; round < 50; round += 1) {
      const answers = Array.from({ length: 200 }, (_, index) => {
        const call = callOf();
        const answer = producer.infer(requestOf('echo', index % 50 === 0 ? big : Buffer.of(1)), call);
        if (index === 7) call.cancel(new InferError('CANCELLED', 'gone'));
        return answer;
      });
      const settled = await Promise.allSettled(answers);
      expect(settled.filter((result) => result.status === 'fulfilled').length).toBeGreaterThanOrEqual(199);
    }
    const redis = pool.redis.client();
    await until('tensors are gone', async () => (await redis.keys('*.tensor:*')).length === 0);
    expect(await redis.keys('*.tensor:*')).toEqual([]);
    expect((await redis.keys('*.reply:*')).length).toBeLessThanOrEqual(1);
    await until(
      'the reply stream is trimmed',
      async () => (await redis.xlen((await redis.keys('*.reply:*'))[0]!)) === 0,
    );
    const queue = producer.queues()[0]!;
    expect(await queue.getCompletedCount()).toBeLessThanOrEqual(500);
    expect(await queue.getJobCountByTypes('active', 'waiting', 'delayed', 'failed')).toBe(0);
    expect(await redis.xlen(queue.toKey('events'))).toBeLessThan(2000);
    await producer.close(0);
    expect(await redis.keys('*.reply:*')).toEqual([]);
  }, 60_000);
});
