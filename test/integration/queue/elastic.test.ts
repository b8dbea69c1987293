import { Queue } from 'bullmq';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { QueueDispatcher } from '../../../producer/dispatch/queue-dispatcher.ts';
import { ModelStats } from '../../../shared/infer/model-stats.ts';
import { drainKey, modelKey, pulseKey, QUEUE_PREFIX, queueName, SPEEDS_KEY } from '../../../shared/wire/names.ts';
import { encodeBundle } from '../../../shared/wire/job.ts';
import type { WorkerEngine } from '../../../worker/consumer/create-consumer.ts';
import { until } from '../../support/redis.ts';
import { callOf, FakeEngine, requestOf } from '../../support/worker.ts';
import { knows, type Pool, startPool } from './pool.ts';

const ROW = Buffer.of(1);
const BATCHED = { name: 'echo', maxBatchSize: 8 };

let pool: Pool;
beforeEach(async () => {
  pool = await startPool();
});
afterEach(() => pool.close());

/** An engine whose every request counts as a run of 50 ms. */
function measuredEngine(): WorkerEngine {
  const engine = new FakeEngine([{ name: 'echo' }]);
  const stats = new ModelStats('echo', '1');
  return {
    catalog: engine.catalog,
    stats: () => [stats],
    infer: async (request, call) => {
      const response = await engine.infer(request, call);
      stats.recordSuccess(1, 1000, { ...response.timings, computeInferUs: 50_000, batchSize: 1, executions: 1 });
      return response;
    },
  };
}

function batch(rows: number) {
  const x = { name: 'x', datatype: 'UINT8', shape: [rows, 1], data: Buffer.alloc(rows) } as const;
  return requestOf('echo', ROW, { inputs: [x] });
}

function modelOf(producer: QueueDispatcher, name = 'echo') {
  return producer.monitor.view().models.find((model) => model.name === name);
}

describe('the pool as a producer sees it', () => {
  it('shows each worker with its models, devices and what it has in hand', async () => {
    const { engine, consumer } = await pool.worker([BATCHED]);
    engine.catalog.addBroken('broken', 'no such file');
    engine.holding = true;
    const producer = await pool.producer();
    await knows(producer, 'echo');
    const answers = [3, 4].map((rows) => producer.infer(batch(rows), callOf()));
    await until('the worker has told of them', () => producer.monitor.view().workers[0]?.requests_in_hand === 2);
    const { workers } = producer.monitor.view();
    expect(workers).toEqual([
      expect.objectContaining({ id: consumer.workerId, pid: process.pid, state: 'ready', reason: '' }),
    ]);
    expect(workers[0]!.devices).toEqual([expect.objectContaining({ kind: 'cpu' })]);
    expect(Date.now() - Date.parse(workers[0]!.started!)).toBeLessThan(60_000);
    expect(workers[0]!.models).toEqual([
      expect.objectContaining({ name: 'echo', version: '1', state: 'READY', rows_in_hand: 7, rows_per_second: null }),
      expect.objectContaining({ name: 'broken', state: 'UNAVAILABLE', reason: 'no such file' }),
    ]);
    expect(modelOf(producer)).toMatchObject({ workers: 1, waiting_rows: 0, running_rows: 7, desired_workers: 1 });
    engine.release();
    await Promise.all(answers);
    await until('nothing is in hand', () => modelOf(producer)?.running_rows === 0);
    expect(Date.now() - Date.parse(producer.monitor.view().workers[0]!.last_job!)).toBeLessThan(60_000);
  });

  it('counts the rows of all producers that no worker has taken, and wishes for as many workers as they need', async () => {
    const first = await pool.worker([BATCHED]);
    const producer = await pool.producer({ maxDesiredWorkers: 5 });
    await knows(producer, 'echo');
    await first.consumer.close(5000);
    const redis = pool.redis.client();
    await redis.hset(SPEEDS_KEY, 'echo', '10');
    const other = await pool.producer();
    const answers = [5, 5, 5].map((rows) => producer.infer(batch(rows), callOf()));
    answers.push(...[4, 4].map((rows) => other.infer(batch(rows), callOf())));
    await until('all of them wait', () => modelOf(producer)?.waiting_rows === 23 && modelOf(producer)?.workers === 0);
    expect(modelOf(producer)).toMatchObject({ workers: 0, rows_per_second: 10, ms_per_row: 100, desired_workers: 3 });
    expect(producer.monitor.desiredWorkers).toBe(3);
    answers.push(...Array.from({ length: 100 }, () => producer.infer(batch(8), callOf())));
    await until('there is no end to it', () => producer.monitor.desiredWorkers === 5);
    const { waiting_rows: rows } = modelOf(producer)!;
    expect(Math.abs(rows - 823)).toBeLessThan(100); // beyond 16 jobs by their mean
    await pool.worker([BATCHED]);
    await Promise.all(answers);
    await until('nothing waits', () => modelOf(producer)?.waiting_rows === 0);
  });

  it('sees waiting jobs in the list that docs and manifests name', async () => {
    const first = await pool.worker([BATCHED]);
    const producer = await pool.producer();
    await knows(producer, 'echo');
    await first.consumer.close(5000);
    const answer = producer.infer(batch(1), callOf());
    const redis = pool.redis.client();
    await until('it waits there', async () => (await redis.llen('{millrace}:echo:wait')) === 1);
    await pool.worker([BATCHED]);
    await answer;
  });

  it('sees jobs with a priority and those whose time has come, which no worker has moved yet', async () => {
    const first = await pool.worker([BATCHED]);
    const producer = await pool.producer();
    await knows(producer, 'echo');
    await first.consumer.close(5000);
    const queue = new Queue(queueName('echo'), { connection: pool.redis.client(), prefix: QUEUE_PREFIX });
    await queue.add('bundle', {}, { priority: 5 });
    await queue.add('bundle', {}, { delay: 3_600_000 });
    await queue.add('bundle', {}, { delay: 50 });
    await until('both count', () => modelOf(producer)?.waiting_jobs === 2);
    await queue.close();
  });

  it('measures speeds from real runs and still knows them when the worker has left', async () => {
    const { consumer } = await pool.worker([], { engine: measuredEngine() });
    const producer = await pool.producer();
    await knows(producer, 'echo');
    await until('it is measured', async () => {
      await producer.infer(requestOf('echo', ROW), callOf());
      return (modelOf(producer)?.rows_per_second ?? 0) > 0;
    });
    expect(modelOf(producer)!.ms_per_row).toBeGreaterThanOrEqual(49);
    await consumer.close(1000);
    const later = await pool.producer();
    await until('a new producer knows it', () => typeof modelOf(later)?.rows_per_second === 'number');
    expect(modelOf(later)).toMatchObject({ workers: 0, ms_per_row: expect.closeTo(50, -1) as number });
  });

  it('does not take a worker that was lost for one that works: its jobs still need one', async () => {
    const { engine, consumer } = await pool.worker([BATCHED]);
    engine.holding = true;
    const producer = await pool.producer();
    await knows(producer, 'echo');
    const answer = producer.infer(batch(1), callOf(60_000)).catch(() => undefined);
    await until('it has it', () => engine.held.length === 1);
    engine.held[0]!.start();
    await consumer.close(0);
    await until('nobody is there', () => producer.monitor.view().workers.length === 0);
    await producer.monitor.look();
    await until('the job counts as running', () => modelOf(producer)?.workers === 0);
    expect(modelOf(producer)).toMatchObject({ running_rows: 1, desired_workers: 1 });
    engine.release();
    void answer;
  });
});

describe('a worker that is to drain', () => {
  it('is asked by its id, its host and process, or its host where it is alone there', async () => {
    const asked: string[] = [];
    const one = await pool.worker([BATCHED], { onDrain: () => asked.push('one') });
    const producer = await pool.producer();
    await knows(producer, 'echo');
    const { host, name } = producer.monitor.view().workers[0]!;
    expect(await producer.monitor.drain(host)).toEqual({ id: one.consumer.workerId, name });
    await until('it has heard', () => asked.length === 1);
    const two = await pool.worker([BATCHED], { onDrain: () => asked.push('two') });
    await until('both are there', () => producer.monitor.view().workers.length === 2);
    await expect(producer.monitor.drain(host)).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: expect.stringContaining(`'${host}' has 2 workers; name one of them: ${name}`) as string,
    });
    await producer.monitor.drain(two.consumer.workerId);
    await until('the other has heard', () => asked.length === 2);
    expect(asked).toEqual(['one', 'two']);
    await expect(producer.monitor.drain('nobody')).rejects.toMatchObject({
      code: 'NOT_FOUND',
      message: "no worker of the pool is called 'nobody'",
    });
  });

  it('leaves nothing of its own in Redis', async () => {
    const { consumer } = await pool.worker([BATCHED], { onDrain: () => void consumer.close(5000) });
    const producer = await pool.producer();
    await knows(producer, 'echo');
    await producer.monitor.drain(consumer.workerId);
    await until('it has left', () => producer.monitor.view().workers.length === 0);
    const redis = pool.redis.client();
    await until('its keys are gone', async () => {
      return (await redis.exists(drainKey(consumer.workerId), pulseKey(consumer.workerId))) === 0;
    });
  });
});

describe('a pool without workers', () => {
  it('is ready where it is told to be, and keeps what waits for the next worker', async () => {
    const first = await pool.worker([BATCHED]);
    const producer = await pool.producer({ readyWithoutWorkers: true });
    await knows(producer, 'echo');
    await first.consumer.close(5000);
    await until('it is gone', () => producer.monitor.view().workers.length === 0);
    expect(producer.ready()).toEqual({ ok: true });
    const answer = producer.infer(batch(2), callOf());
    await until('it is wished for', () => producer.monitor.desiredWorkers === 1);
    await pool.worker([BATCHED]);
    expect((await answer).outputs[0]!.shape).toEqual([2, 1]);
  });

  it('wishes for nobody where nobody waits any more, and removes such requests', async () => {
    const first = await pool.worker([BATCHED]);
    const producer = await pool.producer();
    await knows(producer, 'echo');
    await first.consumer.close(5000);
    const redis = pool.redis.client();
    const queue = new Queue(queueName('echo'), { connection: redis, prefix: QUEUE_PREFIX });
    const add = async (id: string, overSinceMs: number, rows: number) => {
      const deadlineMs = Date.now() - overSinceMs;
      const item = { sequence: 1, callId: id, request: batch(rows), priority: 0, deadlineMs };
      await queue.add('infer', encodeBundle('p', id, 'echo', [item]).data, { jobId: id });
    };
    await add('late', 1000, 5);
    await until('it is seen, and nobody wished for', () => {
      const model = modelOf(producer);
      return model?.waiting_jobs === 1 && model.waiting_rows === 0;
    });
    for (let i = 0; i < 20; i += 1) await add(`old${i}`, 20_000, 5);
    await add('alive', -600_000, 3);
    await until('the old ones are gone', async () => (await queue.getWaitingCount()) === 2);
    expect((await queue.getWaiting()).map(({ id }) => id).sort()).toEqual(['alive', 'late']);
    await until('the one is wished for', () => producer.monitor.desiredWorkers === 1);
    await queue.close();
  });

  it('is not told of by a producer that has not seen it for a minute', async () => {
    await pool.worker([BATCHED]);
    const producer = await pool.producer();
    await knows(producer, 'echo');
    await until('it has looked', () => producer.monitor.models.length === 1);
    expect(producer.monitor.desiredWorkers).toBeGreaterThan(0);
    const now = performance.now.bind(performance);
    const later = vi.spyOn(performance, 'now').mockImplementation(() => now() + 61_000);
    try {
      expect([producer.monitor.desiredWorkers, producer.monitor.models]).toEqual([undefined, []]);
    } finally {
      later.mockRestore();
    }
  });

  it('knows its models as long as their workers wanted', async () => {
    await pool.worker([BATCHED]);
    await pool.worker([{ name: 'short' }], { retentionMs: 60_000 });
    const redis = pool.redis.client();
    const producer = await pool.producer();
    await knows(producer, 'echo');
    await knows(producer, 'short');
    const ttls = await Promise.all((await redis.keys(modelKey('*'))).map((key) => redis.pttl(key)));
    expect(ttls.sort((a, b) => a - b)).toEqual([
      expect.closeTo(60_000, -5) as number,
      expect.closeTo(7 * 24 * 3_600_000, -6) as number,
    ]);
  });
});

describe('when a worker last had work', () => {
  it('is now while it has some, and what waits where it takes from is known to it', async () => {
    const { engine, consumer } = await pool.worker([BATCHED]);
    const startMs = consumer.lastWorkMs();
    expect(await consumer.waitingJobs()).toBe(0);
    engine.holding = true;
    const producer = await pool.producer();
    await knows(producer, 'echo');
    const answer = producer.infer(batch(1), callOf());
    await until('it has it', () => engine.held.length === 1);
    const busyMs = consumer.lastWorkMs();
    expect(busyMs).toBeGreaterThan(startMs);
    engine.release();
    await answer;
    await until('it rests', () => consumer.inHand() === 0 && consumer.lastWorkMs() === consumer.lastWorkMs());
    expect(consumer.lastWorkMs()).toBeGreaterThanOrEqual(busyMs);
  });
});
