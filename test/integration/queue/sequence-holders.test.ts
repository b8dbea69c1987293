import { appendFileSync, cpSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { InferError } from '../../../shared/errors.ts';
import { queueName, WORKER_QUEUES_KEY } from '../../../shared/wire/names.ts';
import { writeSumModel } from '../../fixtures/sequence-models.ts';
import { until } from '../../support/redis.ts';
import { callOf } from '../../support/worker.ts';
import { f32, statsOf } from '../engine/kit.ts';
import { sum, useSequencePool } from './sequence-pool.ts';

const START = { sequence_start: true } as const;
const END = { sequence_end: true } as const;
const LONG = 'max_sequence_idle_microseconds: 60000000';

describe('who holds a sequence in a pool', () => {
  const { folder, redis, worker, producer } = useSequencePool();
  const pathOf = (...parts: string[]) => join(folder(), ...parts);
  const keys = () => redis().keys('{millrace}.sequence:*');

  it('is known until its END was answered, and not only sent', async () => {
    writeSumModel(pathOf('sum'), { batching: LONG });
    await Promise.all([worker(), worker()]);
    const [a, b] = [await producer(2), await producer(2)];
    for (let id = 1; id <= 4; id += 1) {
      expect(await sum(a, id, 1, START)).toBe(1);
      await expect(sum(a, id, 1, END, { shape: [1, 2] })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
      expect(await sum(b, id, 1)).toBe(2);
      expect(await sum(id % 2 ? a : b, id, 1, END)).toBe(3);
      await expect(sum(b, id, 1)).rejects.toThrow(/must specify the START flag/);
    }
    await until('all are forgotten', async () => (await keys()).length === 0);
  });

  it('is asked where its END was given up, and says what has become of the sequence', async () => {
    writeSumModel(pathOf('sum'), { batching: LONG });
    await worker();
    const one = await producer(1);
    expect(await sum(one, 1, 1, START)).toBe(1);
    const call = callOf();
    const parameters = { sequence_id: 1, ...END };
    const inputs = [f32('x', [1, 1], [1])];
    const given = one.infer({ id: '', model: 'sum', version: '', inputs, outputs: [], parameters }, call);
    call.cancel(new InferError('CANCELLED', 'gone'));
    await expect(given).rejects.toMatchObject({ code: 'CANCELLED' });
    const next = await sum(one, 1, 1).catch((error: unknown) => InferError.from(error).code);
    expect([2, 'INVALID_ARGUMENT']).toContain(next);
    expect(await sum(one, 1, 7, START)).toBe(7);
    expect(await sum(one, 1, 1, END)).toBe(8);
    await until('it is forgotten', async () => (await keys()).length === 0);
  });

  it('does not forget one that began anew before the answer to its END was read', async () => {
    writeSumModel(pathOf('sum'), { batching: LONG });
    await worker();
    const [a, b] = [await producer(1), await producer(1)];
    for (let round = 0; round < 10; round += 1) {
      expect(await sum(a, 1, 1, START)).toBe(1);
      const [last, first] = await Promise.all([sum(a, 1, 1, END), sum(b, 1, 5, START)]);
      expect([2, 6]).toContain(last); // whichever came first
      if (last === 2) expect(await sum(b, 1, 1)).toBe(first + 1);
    }
  });

  it('differs by version: sequences of the same id do not meet', async () => {
    writeSumModel(pathOf('sum'), { batching: `${LONG} direct { }` });
    cpSync(pathOf('sum', '1'), pathOf('sum', '2'), { recursive: true });
    appendFileSync(pathOf('sum', 'config.pbtxt'), 'version_policy { all { } }\n');
    await Promise.all([worker(), worker()]);
    const [a, b] = [await producer(2), await producer(2)];
    for (const id of [1, 2, 3]) {
      expect(await sum(a, id, 1, START, { version: '1' })).toBe(1);
      expect(await sum(b, id, 100, START, { version: '2' })).toBe(100);
      expect(await sum(b, id, 1, {}, { version: '1' })).toBe(2);
      expect(await sum(a, id, 1)).toBe(101); // the latest is 2
      expect(await sum(a, id, 1, END, { version: '1' })).toBe(3);
      expect(await sum(a, id, 1, END)).toBe(102);
    }
  });

  it('is told at once when the model is loaded anew, and begins anew', async () => {
    writeSumModel(pathOf('sum'), { batching: LONG });
    const { consumer } = await worker();
    const [a, b] = [await producer(1), await producer(1)];
    for (const id of [1, 2, 3]) expect(await sum(a, id, id, START)).toBe(id);
    expect(await sum(a, 3, 1, END)).toBe(4);
    for (const batching of [`${LONG} direct { }`, LONG]) {
      writeSumModel(pathOf('sum'), { batching });
      await a.control.load('sum');
      for (const id of [1, 2]) {
        await expect(sum(id === 1 ? a : b, id, 1)).rejects.toMatchObject({
          code: 'UNAVAILABLE',
          message: expect.stringMatching(
            /^sequence . of model 'sum' was lost: its model was loaded anew.*START/,
          ) as string,
        });
      }
      await expect(sum(a, 3, 1)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
      for (const id of [1, 2]) expect(await sum(b, id, 5, START)).toBe(5);
      for (const id of [1, 2]) expect(await sum(a, id, 1)).toBe(6);
    }
    expect(consumer.inHand()).toBe(0);
  });

  it('answers what it has when the model is loaded anew', async () => {
    writeSumModel(pathOf('sum'), { batching: LONG });
    const { engine } = await worker();
    const one = await producer(1);
    expect(await sum(one, 1, 0, START)).toBe(0);
    writeSumModel(pathOf('sum'), { batching: `${LONG} direct { }` });
    const reload = engine.control.load('sum');
    const odd: unknown[] = [];
    let steps = 0;
    for (let last = 0; ; steps += 1) {
      const answer = await sum(one, 1, 1).catch((error: unknown) => InferError.from(error));
      if (answer !== (last += 1)) {
        odd.push(answer);
        break;
      }
      if (steps > 5000) break;
    }
    await reload;
    expect(odd).toMatchObject([{ code: 'UNAVAILABLE', message: expect.stringContaining('was loaded anew') as string }]);
  });

  it('is told by version when another version takes its place', async () => {
    writeSumModel(pathOf('sum'), { batching: LONG });
    await worker();
    const one = await producer(1);
    expect(await sum(one, 1, 1, START)).toBe(1);
    cpSync(pathOf('sum', '1'), pathOf('sum', '2'), { recursive: true });
    await one.control.load('sum');
    await expect(sum(one, 1, 1)).rejects.toThrow(
      /was lost: it began at version 1 of the model, and version 2 answers now/,
    );
    expect(await sum(one, 1, 4, START)).toBe(4);
    expect(await sum(one, 1, 1)).toBe(5);
  });

  it('is the worker with free places', async () => {
    writeSumModel(pathOf('sum'), { maxBatchSize: 4, batching: LONG });
    const a = await worker();
    const one = await producer(1);
    for (const id of [1, 2, 3]) expect(await sum(one, id, id, START)).toBe(id);
    const b = await worker();
    await until('both are known', () => one.catalog.workersServing('sum', '').length === 2);
    for (const id of [4, 5, 6, 7, 8]) expect(await sum(one, id, id, START)).toBe(id);
    expect([statsOf(a.engine, 'sum').success.count, statsOf(b.engine, 'sum').success.count]).toEqual([4, 4]);
    for (const id of [1, 5, 8]) expect(await sum(one, id, id, END)).toBe(2 * id);
    const other = await producer(2);
    await until('the free places are told', () => {
      const told = [a, b].map(({ consumer }) => other.catalog.freePlaces(consumer.workerId, 'sum', '1'));
      return (told[0] ?? 0) + (told[1] ?? 0) === 3;
    });
    for (const id of [11, 15, 18]) expect(await sum(other, id, id, START)).toBe(id);
  });

  it('is another worker when the first has no room for a START', async () => {
    writeSumModel(pathOf('sum'), { batching: LONG });
    await worker({ maxQueueSize: 0 });
    const roomy = await worker();
    const one = await producer(2);
    const ids = [1, 2, 3, 4];
    for (const id of ids) expect(await sum(one, id, id, START)).toBe(id);
    for (const id of ids) expect(await sum(one, id, id, END)).toBe(2 * id);
    expect(statsOf(roomy.engine, 'sum').success.count).toBe(8);
    await roomy.consumer.close(1000);
    await until('it is gone', () => one.catalog.workersServing('sum', '').length === 1);
    await expect(sum(one, 9, 1, START)).rejects.toMatchObject({
      code: 'RESOURCE_EXHAUSTED',
      message: expect.stringContaining('Exceeds maximum queue size') as string,
    });
  });

  it('can be reached through a queue that is on the list before the worker is', async () => {
    writeSumModel(pathOf('sum'), { batching: LONG });
    writeSumModel(pathOf('later'), { batching: LONG });
    const { consumer, engine } = await worker({ loadAtStart: ['sum'] });
    const listed = () => redis().hkeys(WORKER_QUEUES_KEY);
    expect(await listed()).toEqual([queueName('sum', '', consumer.workerId)]);
    await engine.control.load('later');
    await until('the new one is listed', async () => (await listed()).length === 2, 3000);
    const one = await producer(1);
    const own = ['sum', 'later'].map((model) => queueName(model, '', consumer.workerId));
    expect(one.queues().map(({ name }) => name)).toEqual(expect.arrayContaining(own));
    await consumer.close(1000);
    await until('they are not shown any more', () => one.queues().every(({ name }) => !own.includes(name)), 3000);
    await until('nothing is left of them', async () => (await redis().keys('*@@*')).length === 0);
    expect(await listed()).toEqual([]);
  });

  it('leaves no queue behind when it is lost, even where no worker is left and nobody used it', async () => {
    const queue = queueName('sum', '', 'wlost');
    await redis().hset(WORKER_QUEUES_KEY, queue, 'wlost');
    await redis().hset(`{millrace}:${queue}:meta`, 'opts.maxLenEvents', '1');
    await producer(0);
    await until('its keys are gone', async () => (await redis().keys('*wlost*')).length === 0);
    await until('it is off the list', async () => (await redis().exists(WORKER_QUEUES_KEY)) === 0);
  });

  it('goes on taking what is sent to it when its model was gone for a moment', async () => {
    writeSumModel(pathOf('sum'), { batching: LONG });
    const { engine } = await worker();
    const one = await producer(1);
    for (let round = 0; round < 3; round += 1) {
      expect(await sum(one, 1, 1, START)).toBe(1);
      await engine.control.unload('sum');
      await until('it is gone', () => one.catalog.workersServing('sum', '').length === 0);
      await engine.control.load('sum');
      await until('it is back', () => one.catalog.workersServing('sum', '').length === 1);
      await expect(sum(one, 1, 1)).rejects.toThrow(/sequence 1 of model 'sum' was lost/);
      expect(await sum(one, 1, 3, START)).toBe(3);
      for (let x = 4; x < 14; x += 1) expect(await sum(one, 1, 1)).toBe(x);
    }
  });
});
