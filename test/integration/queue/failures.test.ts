import { afterEach, describe, expect, it, vi } from 'vitest';
import { QUEUE_PREFIX } from '../../../shared/wire/names.ts';
import { until } from '../../support/redis.ts';
import { callOf, requestOf } from '../../support/worker.ts';
import { knows, type Pool, startPool } from './pool.ts';

describe('when Redis fails', () => {
  let pool: Pool;
  afterEach(async () => {
    vi.restoreAllMocks();
    await pool.close();
  });

  const text = (answer: { outputs: readonly { data: Uint8Array }[] }): string =>
    Buffer.from(answer.outputs[0]!.data).toString();

  it('refuses requests at once while it is down, holds none of them, and goes on when it is back (D03)', async () => {
    pool = await startPool();
    await pool.worker([{ name: 'echo' }]);
    const producer = await pool.producer();
    await producer.infer(requestOf('echo', Buffer.of(1)), callOf());
    await pool.redis.kill();
    await until('the producer knows', () => !producer.ready().ok);
    const body = Buffer.alloc(1024 * 1024);
    const refused = await Promise.allSettled(
      Array.from({ length: 1000 }, () => producer.infer(requestOf('echo', body), callOf(60_000))),
    );
    for (const result of refused) {
      expect(result).toMatchObject({ status: 'rejected', reason: { code: 'UNAVAILABLE' } });
    }
    expect(producer.stats()).toMatchObject({ requestsInFlight: 0, bytesInFlight: 0 });
    await pool.redis.start();
    await until('the producer is back', () => producer.ready().ok, 10_000);
    expect(text(await producer.infer(requestOf('echo', Buffer.from('again')), callOf()))).toBe('again');
  });

  it('fails what could not be brought to the queue before it went down', async () => {
    pool = await startPool();
    await pool.worker([{ name: 'echo' }]);
    const producer = await pool.producer();
    await knows(producer, 'echo');
    process.kill(pool.redis.pid, 'SIGSTOP');
    const answer = producer.infer(requestOf('echo', Buffer.of(1)), callOf(60_000));
    await expect(answer).rejects.toMatchObject({ code: 'UNAVAILABLE' });
    process.kill(pool.redis.pid, 'SIGCONT');
    await until('the producer is back', () => producer.ready().ok);
    expect(text(await producer.infer(requestOf('echo', Buffer.from('again')), callOf()))).toBe('again');
  });

  it.each([
    ['with its data', true],
    ['empty', false],
  ])(
    'answers what was in the queue and in the engine when it comes back %s',
    async (_, persistent) => {
      pool = await startPool({ persistent });
      const { engine } = await pool.worker([{ name: 'echo' }]);
      engine.holding = true;
      const producer = await pool.producer();
      const inEngine = producer.infer(requestOf('echo', Buffer.from('in the engine')), callOf(25_000));
      await until('the engine has it', () => engine.held.length === 1);
      await pool.redis.kill();
      engine.held[0]!.answer();
      await pool.redis.start();
      engine.release();
      expect(text(await inEngine)).toBe('in the engine');
      expect(text(await producer.infer(requestOf('echo', Buffer.from('next')), callOf()))).toBe('next');
    },
    40_000,
  );

  it('sends waiting requests again when it lost them', async () => {
    pool = await startPool();
    const first = await pool.worker([{ name: 'echo' }]);
    const producer = await pool.producer();
    await first.consumer.close(1000);
    const answer = producer.infer(requestOf('echo', Buffer.from('kept')), callOf(25_000));
    await until('it lies in the queue', async () => (await producer.queues()[0]!.getWaitingCount()) === 1);
    await pool.redis.kill();
    await pool.redis.start();
    await until('the producer is back', () => producer.catalog.list().length > 0);
    await pool.worker([{ name: 'echo' }]);
    expect(text(await answer)).toBe('kept');
  }, 40_000);

  it('loses nothing and answers nothing twice when all connections are cut', async () => {
    pool = await startPool();
    await pool.worker([{ name: 'echo', maxBatchSize: 8 }]);
    const producer = await pool.producer();
    const admin = pool.redis.client();
    await knows(producer, 'echo');
    const answers: Promise<string>[] = [];
    for (let round = 0; round < 60; round += 1) {
      for (let index = 0; index < 5; index += 1) {
        const name = `${round}.${index}`;
        answers.push(producer.infer(requestOf('echo', Buffer.from(name)), callOf(25_000)).then(text));
      }
      if (round % 20 === 10) await admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    const expected = Array.from({ length: 300 }, (_, index) => `${Math.floor(index / 5)}.${index % 5}`);
    expect(await Promise.all(answers)).toEqual(expected);
  }, 40_000);

  it('refuses with "queue storage full" while it is full, and recovers by itself (D16)', async () => {
    pool = await startPool({ args: ['--maxmemory', '30mb'] });
    const { engine } = await pool.worker([{ name: 'echo' }]);
    engine.holding = true;
    const producer = await pool.producer();
    const body = Buffer.alloc(1024 * 1024, 7);
    const answers = Array.from({ length: 60 }, () => producer.infer(requestOf('echo', body), callOf(30_000)));
    const first = await Promise.race(answers.map((answer) => answer.catch((error: unknown) => error)));
    expect(first).toMatchObject({ code: 'UNAVAILABLE', message: 'queue storage full' });
    await until('readiness says so', () => {
      const ready = producer.ready();
      return !ready.ok && ready.reason === 'queue storage full';
    });
    engine.release();
    for (const result of await Promise.allSettled(answers)) {
      if (result.status === 'fulfilled') expect(result.value.outputs[0]!.data.byteLength).toBe(body.byteLength);
      else expect(result.reason).toMatchObject({ code: 'UNAVAILABLE' });
    }
    await until('it is ready again', () => producer.ready().ok);
    expect(text(await producer.infer(requestOf('echo', Buffer.from('room')), callOf()))).toBe('room');
  }, 60_000);

  it('answers once and lives on when the lock of a running job vanishes (D15)', async () => {
    pool = await startPool();
    const { engine } = await pool.worker([{ name: 'echo' }]);
    engine.holding = true;
    const producer = await pool.producer();
    const answer = producer.infer(requestOf('echo', Buffer.from('locked')), callOf(25_000));
    await until('it runs', () => engine.held.length === 1);
    const redis = pool.redis.client();
    const locks = await redis.keys(`${QUEUE_PREFIX}:*:lock`);
    expect(locks).toHaveLength(1);
    await redis.del(locks[0]!);
    engine.release();
    expect(text(await answer)).toBe('locked');
    await until('the job is over', async () => (await producer.queues()[0]!.getActiveCount()) === 0, 20_000);
    expect(text(await producer.infer(requestOf('echo', Buffer.from('next')), callOf()))).toBe('next');
  }, 40_000);

  it('keeps deadlines on clocks that are ten minutes off (D22)', async () => {
    pool = await startPool();
    const realNow = Date.now;
    const offsets = [600_000, -600_000, 0];
    let calls = 0;
    vi.spyOn(Date, 'now').mockImplementation(() => realNow() + offsets[(calls += 1) % 3]!);
    const { engine } = await pool.worker([{ name: 'echo' }]);
    const producer = await pool.producer();
    const bytes = Array.from({ length: 30 }, (_, index) => index);
    const answers = await Promise.all(
      bytes.map((byte) => producer.infer(requestOf('echo', Buffer.of(byte)), callOf(5000))),
    );
    expect(answers.map((answer) => answer.outputs[0]!.data[0])).toEqual(bytes);
    expect(engine.seen).toHaveLength(30);
    expect(calls).toBeGreaterThan(0);
  });

  it('is refused at start when it evicts keys, with the command that puts it right', async () => {
    pool = await startPool({ args: ['--maxmemory-policy', 'allkeys-lru'] });
    const message = expect.stringMatching(
      /allkeys-lru, expected noeviction.*redis-cli -h 127\.0\.0\.1 -p \d+ CONFIG SET maxmemory-policy noeviction/,
    ) as string;
    await expect(pool.producer()).rejects.toMatchObject({ code: 'INVALID_ARGUMENT', message });
    await expect(pool.worker([{ name: 'echo' }])).rejects.toMatchObject({ code: 'INVALID_ARGUMENT', message });
  });

  it('is named with its address when it cannot be reached at start', async () => {
    pool = await startPool();
    await pool.redis.kill();
    await expect(pool.producer({ connectTimeoutMs: 300 })).rejects.toMatchObject({
      code: 'UNAVAILABLE',
      message: expect.stringMatching(/cannot reach Redis at 127\.0\.0\.1:\d+: .*ECONNREFUSED/) as string,
    });
    await expect(pool.producer({ redisUrl: 'http://x' })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
  });
});
