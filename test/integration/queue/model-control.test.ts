import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { QueueDispatcher } from '../../../producer/dispatch/queue-dispatcher.ts';
import { Call } from '../../../shared/infer/call.ts';
import type { ModelCatalog } from '../../../shared/infer/ports.ts';
import { NO_PARAMETERS } from '../../../shared/infer/request.ts';
import type { Tensor } from '../../../shared/tensor/tensor.ts';
import { createConsumer } from '../../../worker/consumer/create-consumer.ts';
import { createCApiBackend } from '../../../worker/engine/backend/onnx/c-api/c-api-backend.ts';
import type { ControlMode } from '../../../worker/engine/repository/model-repository.ts';
import { addModelFile, writeAddModel, writeAddVersion } from '../../support/add-model.ts';
import { until } from '../../support/redis.ts';
import { f32, floatsOf, startEngine } from '../engine/kit.ts';
import { type Pool, startPool } from './pool.ts';

const CONFIG = JSON.stringify({
  max_batch_size: 8,
  platform: 'onnxruntime_onnx',
  input: [{ name: 'x', data_type: 'TYPE_FP32', dims: [-1] }],
  output: [{ name: 'y', data_type: 'TYPE_FP32', dims: [-1] }],
});

let folder = '';
let pool: Pool;
let producer: QueueDispatcher;
let closers: (() => Promise<void>)[] = [];

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'millrace-control-'));
  pool = await startPool();
  closers = [];
});

afterEach(async () => {
  await Promise.all(closers.map((close) => close()));
  await pool.close();
  rmSync(folder, { recursive: true, force: true });
});

/** A worker with a real engine over a repository of its own. */
async function worker(
  repository: string,
  options: { mode?: ControlMode; atOnce?: { now: number; most: number } } = {},
) {
  const path = join(folder, repository);
  mkdirSync(path, { recursive: true });
  const { mode = 'explicit', atOnce } = options;
  const backend = createCApiBackend();
  const { engine } = await startEngine([path], {
    controlMode: mode,
    backend: {
      async load(wish) {
        if (atOnce) atOnce.most = Math.max(atOnce.most, (atOnce.now += 1));
        try {
          return await backend.load(wish);
        } finally {
          if (atOnce) atOnce.now -= 1;
        }
      },
    },
  });
  const { infer, catalog, control } = engine;
  const consumer = await createConsumer({
    redisUrl: pool.redis.url,
    engine: {
      infer,
      catalog,
      ...(mode === 'explicit' && { control }),
      takeTurns: (turns) => engine.takeTurns(turns),
    },
    logger: { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} },
  });
  const close = async () => {
    await consumer.close(5000);
    await engine.close(5000);
  };
  closers.push(close);
  return { engine, close };
}

const ask = async (value = 0, version = '', model = 'm') => {
  const nowMs = performance.now();
  const inputs: Tensor[] = [f32('x', [1, 1], [value])];
  const response = await producer.infer(
    { id: '', model, version, inputs, outputs: [], parameters: NO_PARAMETERS },
    new Call('c', nowMs, nowMs + 15_000),
  );
  return { value: floatsOf(response.outputs[0])[0], version: response.version };
};

const statesOf = (engine: { catalog: ModelCatalog }, model = 'm') =>
  engine.catalog.list().flatMap(({ name, version = '', state }) => (name === model ? [`${version} ${state}`] : []));

describe('model control in a pool', () => {
  it('loads and unloads on every worker, and on those that join later', async () => {
    for (const name of ['a', 'b', 'c']) writeAddModel(join(folder, name, 'm'), [1]);
    const [a, b] = [await worker('a'), await worker('b')];
    producer = await pool.producer();
    await producer.control.load('m');
    expect([statesOf(a.engine), statesOf(b.engine), statesOf(producer)]).toEqual(Array(3).fill(['1 READY']));
    expect(await ask(5)).toEqual({ value: 6, version: '1' });
    const c = await worker('c');
    expect(statesOf(c.engine)).toEqual(['1 READY']);
    await producer.control.unload('m');
    await expect(ask()).rejects.toMatchObject({ code: 'NOT_FOUND' });
    await until('all have unloaded it', () => [a, b, c].every(({ engine }) => statesOf(engine)[0] === '1 UNAVAILABLE'));
  });

  it('brings config and files along', async () => {
    await worker('a');
    await worker('b');
    producer = await pool.producer();
    await producer.control.load('new', { config: CONFIG, files: new Map([['4/model.onnx', addModelFile(40)]]) });
    expect(await ask(1, '', 'new')).toEqual({ value: 41, version: '4' });
  });

  it('keeps the files of a load as long as it is what was asked last', async () => {
    const a = await worker('a');
    producer = await pool.producer();
    const redis = pool.redis.client();
    const files = () => redis.keys('{millrace}.control-file:*');
    const bring = (amount: number, config = CONFIG) =>
      producer.control.load('m', { config, files: new Map([['1/model.onnx', addModelFile(amount)]]) });
    await bring(10);
    const [first = '', ...others] = await files();
    expect([others, await redis.pttl(first)]).toEqual([[], expect.closeTo(7 * 24 * 3_600_000, -5)]);
    await bring(20);
    const [second = ''] = await files();
    expect([await files(), second === first]).toEqual([[second], false]);
    await expect(bring(30, '{"max_batch_size": "many"}')).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
    expect(await files()).toEqual([second]);
    await redis.pexpire(second, 60_000); // as after nearly seven days
    const b = await worker('b');
    expect(await redis.pttl(second)).toBeGreaterThan(60_000);
    expect([statesOf(a.engine), statesOf(b.engine)]).toEqual([['1 READY'], ['1 READY']]);
    await redis.pexpire(second, 60_000);
    await pool.producer();
    await until('a producer has renewed it', async () => (await redis.pttl(second)) > 60_000);
    await producer.control.unload('m');
    await until('nothing is left', async () => (await files()).length === 0);
  });

  it('says why a load failed, and leaves what was there to workers that join later', async () => {
    for (const name of ['a', 'b', 'c']) writeAddModel(join(folder, name, 'm'), [1]);
    const a = await worker('a');
    producer = await pool.producer();
    await producer.control.load('m');
    await expect(producer.control.load('m', { config: '{"max_batch_size": "many"}' })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
    });
    writeFileSync(join(folder, 'a', 'm', '1', 'model.onnx'), 'garbage');
    await expect(producer.control.load('m')).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: expect.stringContaining("load failed for model 'm': version 1") as string,
    });
    const b = await worker('b');
    expect([statesOf(a.engine), statesOf(b.engine)]).toEqual([['1 READY'], ['1 READY']]);
    expect((await ask(1)).value).toBe(2);
  });

  it('is content when only some workers have the model, and not when none has', async () => {
    writeAddModel(join(folder, 'a', 'm'), [1]);
    await worker('a');
    await worker('b');
    producer = await pool.producer();
    await producer.control.load('m');
    expect((await ask()).value).toBe(1);
    await expect(producer.control.load('nope')).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });

  it('is refused when no worker takes it', async () => {
    writeAddModel(join(folder, 'a', 'm'), [1]);
    await worker('a', { mode: 'none' });
    producer = await pool.producer();
    for (const change of [producer.control.load('m'), producer.control.unload('m')]) {
      await expect(change).rejects.toMatchObject({
        code: 'UNAVAILABLE',
        message: expect.stringContaining('explicit model load / unload is not allowed') as string,
      });
    }
  });

  it('replaces a model on one worker after the other, without a failed request', async () => {
    const atOnce = { now: 0, most: 0 };
    for (const name of ['a', 'b', 'c']) {
      writeAddModel(join(folder, name, 'm'), [1]);
      await worker(name, { atOnce });
    }
    producer = await pool.producer();
    await producer.control.load('m');
    atOnce.most = 0;
    const odd: unknown[] = [];
    let over = false;
    const client = async () => {
      while (!over) {
        try {
          const { value = 0 } = await ask(100);
          if (value < 101 || value > 110) odd.push(value);
        } catch (error) {
          odd.push(error);
        }
      }
    };
    const clients = [client(), client(), client(), client()];
    for (let round = 2; round <= 6; round += 1) {
      for (const name of ['a', 'b', 'c']) writeAddVersion(join(folder, name, 'm'), '1', round);
      await producer.control.load('m');
    }
    over = true;
    await Promise.all(clients);
    expect(odd).toEqual([]);
    expect(atOnce.most).toBe(1);
    expect((await ask(100)).value).toBe(106);
  });

  it('brings a request for one version to a worker that has it', async () => {
    writeAddModel(join(folder, 'a', 'm'), [1]);
    writeAddModel(join(folder, 'b', 'm'), [2]);
    await worker('a', { mode: 'none' });
    const b = await worker('b', { mode: 'none' });
    producer = await pool.producer();
    const pinned = Array.from({ length: 40 }, (_, index) => ask(10, String(1 + (index % 2))));
    const answers = await Promise.all(pinned);
    expect(answers).toEqual(answers.map((_, index) => ({ value: 11 + (index % 2), version: String(1 + (index % 2)) })));
    await expect(ask(10, '3')).rejects.toMatchObject({ code: 'NOT_FOUND' });
    await b.close();
    await until('the producer knows', () => producer.catalog.list().every(({ version }) => version !== '2'));
    expect(await ask(10, '1')).toEqual({ value: 11, version: '1' });
  });

  it('sends a request on that reached a worker which has just unloaded the model', async () => {
    for (const name of ['a', 'b']) writeAddModel(join(folder, name, 'm'), [1]);
    const a = await worker('a');
    const b = await worker('b');
    producer = await pool.producer();
    await producer.control.load('m');
    await a.engine.control.unload('m'); // behind the back of the pool
    const answers = await Promise.all(Array.from({ length: 20 }, () => ask(1)));
    expect(answers.every(({ value }) => value === 2)).toBe(true);
    await b.engine.control.unload('m');
    await until('nobody has it', () => statesOf(producer)[0] !== '1 READY');
    await expect(ask()).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });
});
