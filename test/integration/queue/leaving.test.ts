import { Queue } from 'bullmq';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { QUEUE_PREFIX, queueName } from '../../../shared/wire/names.ts';
import { until } from '../../support/redis.ts';
import { callOf, requestOf } from '../../support/worker.ts';
import { knows, type Pool, startPool } from './pool.ts';

describe('a worker that closes', () => {
  let pool: Pool;
  beforeEach(async () => {
    pool = await startPool();
  });
  afterEach(() => pool.close());

  it('gives back at once what it has not started, for another to run', async () => {
    const leaving = await pool.worker([{ name: 'echo' }]);
    leaving.engine.holding = true;
    const producer = await pool.producer();
    const answers = [1, 2, 3].map((byte) => producer.infer(requestOf('echo', Buffer.of(byte)), callOf()));
    await until('it has all', () => leaving.engine.held.length === 3);
    const closed = leaving.consumer.close(60_000);
    const other = await pool.worker([{ name: 'echo' }]);
    const results = await Promise.all(answers);
    expect(results.map((result) => result.outputs[0]!.data[0])).toEqual([1, 2, 3]);
    expect(other.engine.seen).toHaveLength(3);
    await closed;
  });

  it('answers what runs and gives back only the rest of a bundle', async () => {
    const leaving = await pool.worker([{ name: 'echo', maxBatchSize: 32 }]);
    leaving.engine.holding = true;
    const producer = await pool.producer();
    const big = (byte: number) => {
      const data = Buffer.alloc(20_000, byte);
      const x = { name: 'x', datatype: 'UINT8', shape: [1, 20_000], data } as const;
      return requestOf('echo', data, { inputs: [x] });
    };
    const answers = [1, 2, 3].map((byte) => producer.infer(big(byte), callOf()));
    await until('it has all', () => leaving.engine.held.length === 3);
    leaving.engine.held[0]!.start();
    const closed = leaving.consumer.close(60_000);
    leaving.engine.held[0]!.answer();
    expect((await answers[0]!).outputs[0]!.data[0]).toBe(1);
    await closed;
    const redis = pool.redis.client();
    await until('the tensor of the answered one is gone', async () => (await redis.keys('*.tensor:*')).length === 2);
    const queue = new Queue(queueName('echo'), { connection: redis, prefix: QUEUE_PREFIX });
    expect(await queue.getWaitingCount()).toBe(1);
    expect(await queue.getActiveCount()).toBe(0);
    const other = await pool.worker([{ name: 'echo', maxBatchSize: 32 }]);
    const results = await Promise.all(answers);
    expect(results.map((result) => result.outputs[0]!.data[0])).toEqual([1, 2, 3]);
    expect(other.engine.seen).toHaveLength(2);
    await queue.close();
  });

  it('is not offered any more, at once', async () => {
    const { consumer } = await pool.worker([{ name: 'echo' }]);
    const producer = await pool.producer();
    await knows(producer, 'echo');
    await consumer.close(1000);
    await until('the producer knows', () => !producer.catalog.ready(), 3000);
    expect(producer.catalog.list()).toEqual([
      { name: 'echo', version: '1', state: 'UNAVAILABLE', reason: 'no worker serves this model now' },
    ]);
  });

  it('leaves after its grace time even when a run never ends', async () => {
    const { engine, consumer } = await pool.worker([{ name: 'echo' }]);
    engine.holding = true;
    const producer = await pool.producer();
    const answer = producer.infer(requestOf('echo', Buffer.of(1)), callOf(25_000));
    await until('it has it', () => engine.held.length === 1);
    engine.held[0]!.start();
    await consumer.close(100);
    await pool.worker([{ name: 'echo' }]);
    expect((await answer).outputs[0]!.data[0]).toBe(1);
  }, 30_000);
});

describe('a producer that closes', () => {
  it.concurrent.each([
    { when: 'a moment after Redis was killed', kill: (pool: Pool) => void pool.redis.kill() },
    { when: 'while it looks for Redis', kill: (pool: Pool) => pool.redis.kill(), noticed: true },
    { when: 'while Redis stands still', kill: (pool: Pool) => void process.kill(pool.redis.pid, 'SIGSTOP') },
  ])(
    'leaves within seconds $when',
    async ({ kill, noticed }) => {
      const pool = await startPool();
      const { consumer } = await pool.worker([{ name: 'echo' }]);
      const producer = await pool.producer();
      await knows(producer, 'echo');
      await producer.infer(requestOf('echo', Buffer.of(1)), callOf());
      await kill(pool);
      if (noticed) await until('the producer has noticed', () => !producer.ready().ok);
      await Promise.all([producer.close(0), consumer.close(0)]);
      await pool.close();
    },
    15_000,
  );
});
