import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { QueueDispatcher } from '../../../producer/dispatch/queue-dispatcher.ts';
import { InferError } from '../../../shared/errors.ts';
import type { Parameters } from '../../../shared/infer/request.ts';
import { silentLogger } from '../../../shared/runtime/logger.ts';
import { queueName, WORKER_QUEUES_KEY } from '../../../shared/wire/names.ts';
import { type Consumer, createConsumer } from '../../../worker/consumer/create-consumer.ts';
import { writeSumModel } from '../../fixtures/sequence-models.ts';
import { until } from '../../support/redis.ts';
import { callOf } from '../../support/worker.ts';
import { type EngineUnderTest, f32, floatsOf, startEngine, statsOf, temporaryFolder } from '../engine/kit.ts';
import { knows, type Pool, startPool } from './pool.ts';

const START = { sequence_start: true } as const;
const END = { sequence_end: true } as const;

interface Worker extends EngineUnderTest {
  readonly consumer: Consumer;
}

describe('sequences in a pool', () => {
  let pool: Pool;
  let folder: ReturnType<typeof temporaryFolder>;
  const workers: Worker[] = [];

  beforeEach(async () => {
    folder = temporaryFolder();
    writeSumModel(join(folder.path, 'sum'), { batching: 'max_sequence_idle_microseconds: 60000000' });
    pool = await startPool();
  });
  afterEach(async () => {
    await Promise.all(workers.map(({ consumer }) => consumer.close(100)));
    await Promise.all(workers.splice(0).map((worker) => worker.close()));
    await pool.close();
    folder.remove();
  });

  async function worker(): Promise<Worker> {
    const engine = await startEngine([folder.path], { controlMode: 'explicit', loadAtStart: ['*'] });
    const consumer = await createConsumer({ redisUrl: pool.redis.url, engine: engine.engine, logger: silentLogger });
    const both = { ...engine, consumer };
    workers.push(both);
    return both;
  }

  async function producer(count: number): Promise<QueueDispatcher> {
    const dispatcher = await pool.producer();
    await until(
      `the producer knows ${count} workers`,
      () => dispatcher.catalog.workersServing('sum', '').length === count,
    );
    return dispatcher;
  }

  async function sum(
    dispatcher: QueueDispatcher,
    id: number | bigint | string,
    x: number,
    flags: Parameters = {},
    model = 'sum',
  ): Promise<number> {
    const request = { id: '', model, version: '', inputs: [f32('x', [1, 1], [x])], outputs: [] };
    const parameters = { sequence_id: id, ...flags };
    const { outputs } = await dispatcher.infer({ ...request, parameters }, callOf());
    return floatsOf(outputs[0])[0]!;
  }

  /** How many requests each worker has answered. */
  function answered(model = 'sum'): number[] {
    return workers.map(({ engine }) => statsOf(engine, model).success.count);
  }

  it('stay with the worker that they began at, whichever producer their requests come to', async () => {
    await worker();
    await worker();
    const producers = [await producer(2), await producer(2)] as const;
    const ids = ['a', 'b', 3, 4n, 2n ** 64n - 1n, 'f'];
    for (const id of ids) expect(await sum(producers[0], id, 1, START)).toBe(1);
    for (let step = 2; step <= 5; step += 1) {
      const which = producers[step % 2]!;
      expect(await Promise.all(ids.map((id) => sum(which, id, 1)))).toEqual(ids.map(() => step));
    }
    for (const id of ids) expect(await sum(producers[1], id, 1, END)).toBe(6);
    expect(answered().every((count) => count >= 6)).toBe(true);
    await expect(sum(producers[0], 'a', 1)).rejects.toThrow(/must specify the START flag/);
    expect(await pool.redis.client().keys('{millrace}.sequence:*')).toEqual([]);
  });

  it('are answered in order when a client does not wait', async () => {
    await worker();
    await worker();
    const one = await producer(2);
    const ids = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
    const answers = Array.from({ length: 12 }, (_, step) =>
      ids.map((id) => sum(one, id, step + 1, { sequence_start: step === 0, sequence_end: step === 11 })),
    );
    for (const [step, row] of answers.entries()) {
      expect(await Promise.all(row)).toEqual(ids.map(() => ((step + 1) * (step + 2)) / 2));
    }
    expect(one.stats()).toMatchObject({ requestsInFlight: 0 });
  });

  it('begin anew at the same worker with another START', async () => {
    await worker();
    await worker();
    const [a, b] = [await producer(2), await producer(2)];
    for (let i = 0; i < 5; i += 1) {
      expect(await sum(i % 2 ? a : b, 1, 10, START)).toBe(10);
      expect(await sum(i % 2 ? b : a, 1, 1)).toBe(11);
    }
    expect(answered().sort()).toEqual([0, 10]);
  });

  it('need an id and a START', async () => {
    await worker();
    const one = await producer(1);
    await expect(sum(one, 5, 1)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
    await expect(sum(one, '', 1, START)).rejects.toThrow(/non-empty correlation ID/);
  });

  it('are lost with a worker that leaves, and begin anew elsewhere', async () => {
    const leaving = await worker();
    const one = await producer(1);
    expect(await sum(one, 1, 5, START)).toBe(5);
    const other = await worker();
    await until('the producer knows both', () => one.catalog.workersServing('sum', '').length === 2);
    await leaving.consumer.close(5000);
    await expect(sum(one, 1, 1)).rejects.toThrow(/sequence 1 of model 'sum' was lost.*must be started again/);
    await expect(sum(one, 1, 1)).rejects.toMatchObject({ code: 'UNAVAILABLE' });
    await until('only the other is left', () => one.catalog.workersServing('sum', '').length === 1);
    expect(await sum(one, 1, 7, START)).toBe(7);
    expect(await sum(one, 1, 1)).toBe(8);
    expect(statsOf(other.engine, 'sum').success.count).toBe(2);
    const queue = queueName('sum', '', leaving.consumer.workerId);
    await until('its queue is gone', async () => (await pool.redis.client().keys(`*${queue}*`)).length === 0);
    expect(await pool.redis.client().hkeys(WORKER_QUEUES_KEY)).not.toContain(queue);
  });

  it('are told at once by a worker that leaves that they wait for a place in vain', async () => {
    writeSumModel(join(folder.path, 'narrow'), {
      maxBatchSize: 1,
      batching: 'max_sequence_idle_microseconds: 60000000',
    });
    const leaving = await worker();
    const one = await producer(1);
    expect(await sum(one, 1, 5, START, 'narrow')).toBe(5);
    const waits = sum(one, 2, 5, START, 'narrow');
    waits.catch(() => undefined);
    await until('it waits', () => leaving.engine.pending('narrow', '') === 1);
    const closed = leaving.consumer.close(20_000);
    await expect(waits).rejects.toThrow(/sequence 2 of model 'narrow' was lost: the worker that held it has left/);
    await closed;
  });

  it('are told at once when they come while the worker leaves, however long it still works', async () => {
    const leaving = await worker();
    const one = await producer(1);
    expect(await sum(one, 1, 5, START)).toBe(5);
    const closed = leaving.consumer.close(20_000).then(() => 'closed');
    const late = sum(one, 1, 1).catch((error: unknown) => InferError.from(error).message);
    expect(await Promise.race([late, closed])).toMatch(/sequence 1 of model 'sum' was lost/);
    await closed;
  });

  it('are lost when their model is unloaded', async () => {
    const { engine, consumer } = await worker();
    const one = await producer(1);
    expect(await sum(one, 1, 5, START)).toBe(5);
    await engine.control.unload('sum');
    await expect(sum(one, 1, 1)).rejects.toThrow(/was lost|is unloaded/);
    await engine.control.load('sum');
    await knows(one, 'sum');
    expect(await sum(one, 1, 3, START)).toBe(3);
    expect(consumer.inHand()).toBe(0);
  });

  it('go on after a request that its caller gave up', async () => {
    await worker();
    const one = await producer(1);
    expect(await sum(one, 1, 1, START)).toBe(1);
    const call = callOf();
    const parameters = { sequence_id: 1 };
    const given = one.infer(
      { id: '', model: 'sum', version: '', inputs: [f32('x', [1, 1], [100])], outputs: [], parameters },
      call,
    );
    const next = sum(one, 1, 1);
    call.cancel(new InferError('CANCELLED', 'gone'));
    await expect(given).rejects.toMatchObject({ code: 'CANCELLED' });
    expect([2, 102]).toContain(await next);
    expect(one.stats().requestsInFlight).toBe(0);
  });

  it('work through an ensemble with a step that has them', async () => {
    mkdirSync(join(folder.path, 'both', '1'), { recursive: true });
    writeFileSync(
      join(folder.path, 'both', 'config.pbtxt'),
      `platform: "ensemble" max_batch_size: 1
       input { name: "x" data_type: TYPE_FP32 dims: [ 1 ] }
       output { name: "y" data_type: TYPE_FP32 dims: [ 1 ] }
       ensemble_scheduling { step { model_name: "sum" model_version: -1
         input_map { key: "x" value: "x" } output_map { key: "y" value: "y" } } }`,
    );
    await worker();
    await worker();
    const [a, b] = [await producer(2), await producer(2)];
    for (const id of [1, 2, 3]) expect(await sum(a, id, id, START, 'both')).toBe(id);
    for (const id of [1, 2, 3]) expect(await sum(b, id, id, {}, 'both')).toBe(2 * id);
    for (const id of [1, 2, 3]) expect(await sum(a, id, id, END, 'both')).toBe(3 * id);
    expect(answered('both').every((count) => count > 0)).toBe(true);
  });
});
