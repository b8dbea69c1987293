import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { fileKey } from '../../../shared/wire/names.ts';
import { until } from '../../support/redis.ts';
import { callOf, requestOf } from '../../support/worker.ts';
import { knows, type Pool, startPool } from './pool.ts';

describe('the directory', () => {
  let pool: Pool;
  beforeEach(async () => {
    pool = await startPool();
  });
  afterEach(() => pool.close());

  it('brings a model with its config and files to a producer that has no folder', async () => {
    const files = { 'tokenizer.json': '{"a":1}', 'config.json': '{}' };
    await pool.worker([{ name: 'text', version: '3', maxBatchSize: 8, files }]);
    const producer = await pool.producer();
    const model = producer.catalog.resolve('text', '');
    expect(model).toMatchObject({ name: 'text', version: '3', versions: ['3'], maxBatchSize: 8 });
    expect(model.inputs[0]).toMatchObject({ name: 'x', datatype: 'UINT8', shape: [-1, -1] });
    expect(model.files.names).toEqual(['tokenizer.json', 'config.json']);
    expect((await model.files.read('tokenizer.json')).toString()).toBe('{"a":1}');
    await expect(model.files.read('../secret')).rejects.toMatchObject({ code: 'NOT_FOUND' });
    expect(producer.catalog.resolve('text', '3')).toBe(model);
  });

  it('refuses a file whose content is not what was announced', async () => {
    await pool.worker([{ name: 'text', files: { 'config.json': 'good' } }]);
    const producer = await pool.producer();
    const redis = pool.redis.client();
    const keys = await redis.keys(fileKey('*'));
    await redis.set(keys[0]!, 'evil');
    await expect(producer.catalog.resolve('text', '').files.read('config.json')).rejects.toMatchObject({
      code: 'UNAVAILABLE',
    });
  });

  it('follows models that come, go and fail to load', async () => {
    const { engine } = await pool.worker([{ name: 'first' }]);
    const producer = await pool.producer();
    engine.catalog.add({ name: 'second' });
    await knows(producer, 'second');
    await producer.infer(requestOf('second', Buffer.of(1)), callOf());
    engine.catalog.addBroken('third', 'model.onnx is not an ONNX file');
    await until('the broken one shows', () => producer.catalog.list().some((state) => state.name === 'third'));
    expect(producer.catalog.ready()).toBe(false);
    expect(() => producer.catalog.resolve('third', '')).toThrow(/third.*model.onnx is not an ONNX file/);
    engine.catalog.remove('second');
    await until('the removed one is gone', () => !producer.catalog.names().includes('second'));
  });

  it('forgets a model when its last worker has unloaded it, and knows it again when it is back', async () => {
    const workers = [await pool.worker([{ name: 'm' }, { name: 'other' }]), await pool.worker([{ name: 'm' }])];
    const producer = await pool.producer();
    await until('both serve it', () => producer.catalog.workersServing('m', '').length === 2);
    workers[0]!.engine.catalog.remove('m');
    await until('one does not', () => producer.catalog.workersServing('m', '').length === 1);
    expect(producer.catalog.resolve('m', '')).toMatchObject({ name: 'm' });
    workers[1]!.engine.catalog.remove('m');
    await until('it is unknown', () => !producer.catalog.names().includes('m'));
    const later = await pool.producer();
    for (const each of [producer, later]) {
      await expect(each.infer(requestOf('m', Buffer.of(1)), callOf())).rejects.toThrow(
        "unknown model: 'm' is not found",
      );
    }
    workers[1]!.engine.catalog.add({ name: 'm' });
    await knows(later, 'm');
    await pool.leave(1);
    await until('its worker has left', () => later.catalog.workersServing('m', '').length === 0);
    // Another may come: that it was unloaded once does not count any more.
    expect(later.catalog.resolve('m', '')).toMatchObject({ name: 'm' });
    expect((await pool.producer()).catalog.resolve('m', '')).toMatchObject({ name: 'm' });
  });

  it('refuses what waits for a model that is unloaded, and answers what runs', async () => {
    const { engine } = await pool.worker([{ name: 'm' }], { targetRows: 1 });
    engine.holding = true;
    const producer = await pool.producer();
    const runs = producer.infer(requestOf('m', Buffer.of(1)), callOf());
    await until('it runs', () => engine.held.length === 1);
    engine.held[0]!.start();
    const waits = producer.infer(requestOf('m', Buffer.of(2)), callOf(60_000));
    engine.catalog.remove('m');
    await expect(waits).rejects.toThrow("unknown model: 'm' is not found");
    engine.release();
    expect((await runs).outputs[0]!.data[0]).toBe(1);
  });

  it('is written again by the workers when Redis has lost it', async () => {
    await pool.worker([{ name: 'text', files: { 'config.json': 'good' } }]);
    const redis = pool.redis.client();
    await redis.flushall();
    const producer = await pool.producer();
    await knows(producer, 'text');
    expect((await producer.catalog.resolve('text', '').files.read('config.json')).toString()).toBe('good');
  });

  it('stays known to a producer while Redis, emptied by somebody, does not hold it', async () => {
    await pool.worker([{ name: 'served' }]);
    const gone = await pool.worker([{ name: 'unserved' }]);
    const producer = await pool.producer();
    await knows(producer, 'unserved');
    await gone.consumer.close(0);
    const redis = pool.redis.client();
    await until('the producer has read the empty directory', async () => {
      await redis.flushall();
      return !producer.ready().ok;
    });
    expect(producer.catalog.resolve('served', '')).toMatchObject({ name: 'served', version: '1' });
    const answer = await producer.infer(requestOf('served', Buffer.from('kept')), callOf());
    expect(Buffer.from(answer.outputs[0]!.data).toString()).toBe('kept');
    await knows(producer, 'served');
    // Its worker is gone and nobody writes it again; a request may still wait for a worker that comes.
    expect(producer.catalog.resolve('unserved', '')).toMatchObject({ name: 'unserved' });
  });

  it('shows the highest ready version where a request names none', async () => {
    await pool.worker([
      { name: 'm', version: '9' },
      { name: 'm', version: '10' },
    ]);
    const producer = await pool.producer();
    expect(producer.catalog.resolve('m', '')).toMatchObject({ version: '10', versions: ['9', '10'] });
    expect(producer.catalog.resolve('m', '9')).toMatchObject({ version: '9', versions: ['9', '10'] });
    expect(() => producer.catalog.resolve('m', '11')).toThrow(/'m' version 11 is not found/);
  });
});
