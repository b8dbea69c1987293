import { cpSync, mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { quantisedRows } from '../../fixtures/quantised-rows.ts';
import { makeFixtureModel } from '../../fixtures/make-models.ts';
import { writeModel } from '../../support/onnx/model.ts';
import type { EngineUnderTest } from './kit.ts';
import { batchSizesOf, f32, floatsFrom, send, startEngine, statsOf, temporaryFolder } from './kit.ts';

const MODELS = resolve(import.meta.dirname, '../../../../shared/models');

let folder: ReturnType<typeof temporaryFolder>;
let running: EngineUnderTest;

beforeEach(() => {
  folder = temporaryFolder();
});

afterEach(async () => {
  await running.close();
  folder.remove();
});

const parameter = (key: string, value: string) => `parameters { key: "${key}" value { string_value: "${value}" } } `;

async function start() {
  running = await startEngine([folder.path]);
  return running.engine;
}

async function startQuantised(config: string) {
  const model = join(folder.path, 'quantised');
  mkdirSync(model);
  writeFileSync(join(model, 'config.pbtxt'), config);
  writeModel(join(model, '1', 'model.onnx'), quantisedRows);
  return await start();
}

/** A real model, with more in its config. */
function copyModel(name: string, more: string): void {
  const model = join(folder.path, name);
  mkdirSync(join(model, '1'), { recursive: true });
  cpSync(join(MODELS, name, '1'), join(model, '1'), { recursive: true });
  writeFileSync(join(model, 'config.pbtxt'), more);
}

const x = (values: readonly number[], rows = 1) => [f32('x', [rows, values.length / rows], values)];
const QUIET = [0.01, 0.02, 0.03, 0.04];
const LOUD = [1, -1, 1, -1];
const BATCHING = 'max_batch_size: 8 dynamic_batching { max_queue_delay_microseconds: 20000 } ';

describe('a model that quantises with one scale for the whole batch', () => {
  it('is found, with the measured difference, and its requests are not merged', async () => {
    const engine = await startQuantised(BATCHING);
    const warning = running.log.find(({ event }) => event === 'requests are not merged');
    expect(warning?.fields.reason).toMatch(
      /^the answer for a row depends on the rows beside it: up to [\d.]+ of its size \(cosine [\d.]+, [\d.]+ in one number\), batch_tolerance is 0.02; it has 1 operators/,
    );
    const { batching } = statsOf(engine, 'quantised');
    expect(batching).toMatchObject({ merges: false, maxRows: 1, delayMs: 0, reason: warning?.fields.reason });
    expect(batching?.company?.relative).toBeGreaterThan(0.02);

    const alone = await floatsFrom(send(engine, 'quantised', x(QUIET)));
    const burst = Array.from({ length: 8 }, (_, i) => send(engine, 'quantised', x(i % 2 === 0 ? QUIET : LOUD)));
    for (const [i, answer] of (await Promise.all(burst.map(floatsFrom))).entries()) {
      if (i % 2 === 0) expect(answer).toEqual(alone);
    }
    expect(batchSizesOf(engine, 'quantised')).toEqual({ 1: 9 });
  });

  it('still runs the rows that a client sends together', async () => {
    const engine = await startQuantised(BATCHING);
    expect(await floatsFrom(send(engine, 'quantised', x([...QUIET, ...LOUD], 2)))).toHaveLength(6);
    expect(batchSizesOf(engine, 'quantised')).toEqual({ 2: 1 });
  });

  it('is merged where the config accepts the difference', async () => {
    const engine = await startQuantised(BATCHING + parameter('batch_tolerance', '5'));
    expect(running.log.filter(({ level }) => level === 'warn')).toEqual([]);
    expect(statsOf(engine, 'quantised').batching).toMatchObject({ merges: true, company: { tolerance: 5 } });
    await Promise.all(Array.from({ length: 8 }, () => floatsFrom(send(engine, 'quantised', x(LOUD)))));
    expect(batchSizesOf(engine, 'quantised')).toEqual({ 8: 1 });
  });

  it('keeps the policy of its queue while it is not merged', async () => {
    const policy = 'default_queue_policy { max_queue_size: 100 } priority_levels: 2 default_priority_level: 2';
    const engine = await startQuantised(`max_batch_size: 8 dynamic_batching { ${policy} } `);
    const sent = Array.from({ length: 6 }, (_, i) => send(engine, 'quantised', x(LOUD), { priority: 1 + (i % 2) }));
    await Promise.all(sent.map(floatsFrom));
    expect(batchSizesOf(engine, 'quantised')).toEqual({ 1: 6 });
  });

  it('is not tried where nothing is merged', async () => {
    const io = 'input { name: "x" data_type: TYPE_FP32 dims: 4 } output { name: "y" data_type: TYPE_FP32 dims: 3 }';
    const engine = await startQuantised(`max_batch_size: 8 ${io}`);
    expect(running.log.filter(({ level }) => level === 'warn')).toEqual([]);
    expect(statsOf(engine, 'quantised').batching).toBeUndefined();
  });
});

describe('real models', () => {
  it.each(['digits_mlp', 'efficientnet_lite0_int8', 'iris_logreg', 'magika', 'minilm'])(
    'keeps merging %s, whose rows stand for themselves',
    async (name) => {
      copyModel(name, 'max_batch_size: 8 dynamic_batching { }');
      const { batching } = statsOf(await start(), name);
      expect(batching).toMatchObject({ merges: true, maxRows: 8, delayMs: 0, auto: false, reason: '' });
      expect(batching?.company?.relative).toBeLessThan(0.01);
    },
  );

  it('choose rows and a delay where a batch pays, and say so', async () => {
    copyModel('digits_mlp', `max_batch_size: 64 dynamic_batching { } ${parameter('batch_settings', 'auto')}`);
    const engine = await start();
    const { batching } = statsOf(engine, 'digits_mlp');
    expect(batching).toMatchObject({ merges: true, auto: true, goalMs: undefined });
    expect(batching?.curve.map(({ rows }) => rows)).toEqual([1, 2, 4, 8, 16, 32, 64]);
    expect(batching?.maxRows).toBeGreaterThanOrEqual(16);
    expect(batching?.delayMs).toBeGreaterThan(0);
    expect(batching?.reason).toMatch(/^auto: a run of \d+ takes [\d.]+ ms/);
    const { fields } = running.log.find(({ event }) => event === 'batches are tuned')!;
    expect(fields).toMatchObject({ maxRows: batching?.maxRows, delayMs: batching?.delayMs, reason: batching?.reason });
    const pixels = f32('pixels', [1, 64], new Array<number>(64).fill(1));
    const sent = Array.from({ length: 32 }, () => send(engine, 'digits_mlp', [pixels]).result);
    for (const { outputs } of await Promise.all(sent)) expect(outputs).toHaveLength(2);
    expect(Math.max(...statsOf(engine, 'digits_mlp').batchSizes.keys())).toBeGreaterThan(1);
  });

  it('keep rows and delay within a goal', async () => {
    copyModel(
      'minilm',
      `max_batch_size: 32 dynamic_batching { } ${parameter('batch_settings', 'auto')}${parameter('slo_p99_ms', '100')}`,
    );
    const { batching } = statsOf(await start(), 'minilm');
    const { maxRows = 0, delayMs = 0, curve = [], goalMs } = batching ?? {};
    const runMs = curve.find(({ rows }) => rows === maxRows)?.ms ?? Infinity;
    expect(goalMs).toBe(100);
    const tooSlow = batching?.reason.includes('too long for') === true; // on a machine that has much else to do
    if (!tooSlow) expect(delayMs + 2 * runMs).toBeLessThanOrEqual(0.8 * 100 + 1e-6);
    expect(batching?.reason).toContain('slo_p99_ms 100');
  });
});

describe('a latency goal without auto', () => {
  it('bounds the delay of the config and leaves its sizes', async () => {
    const io = 'input { name: "x" data_type: TYPE_FP32 dims: -1 } output { name: "y" data_type: TYPE_FP32 dims: -1 } ';
    const config = 'max_batch_size: 8 dynamic_batching { max_queue_delay_microseconds: 50000 } ';
    makeFixtureModel(join(folder.path, 'id'), 'id_f32', config + io + parameter('slo_p99_ms', '10'));
    const { batching } = statsOf(await start(), 'id');
    expect(batching).toMatchObject({ auto: false, goalMs: 10, maxRows: 8 });
    expect(batching?.delayMs).toBeLessThanOrEqual(8);
  });
});

describe('a model whose runs have few sizes', () => {
  it('is given those alone, and each request gets its own rows', async () => {
    const io =
      'input { name: "x" data_type: TYPE_FP32 dims: -1 } output { name: "y" data_type: TYPE_FP32 dims: -1 } max_batch_size: 8 dynamic_batching { } ';
    makeFixtureModel(join(folder.path, 'id'), 'id_f32', io + parameter('batch_sizes', 'powers'));
    const engine = await start();
    expect(statsOf(engine, 'id').batching).toMatchObject({ sizes: [1, 2, 4, 8], maxRows: 8 });
    const rows = (id: number, count: number) => Array.from({ length: 2 * count }, (_, at) => 100 * id + at);
    const sent = Array.from({ length: 30 }, (_, id) => send(engine, 'id', x(rows(id, 1 + (id % 3)), 1 + (id % 3))));
    for (const [id, answer] of (await Promise.all(sent.map(floatsFrom))).entries()) {
      expect(answer).toEqual(rows(id, 1 + (id % 3)));
    }
    const sizes = Object.keys(batchSizesOf(engine, 'id')).map(Number);
    expect(sizes.filter((size) => ![1, 2, 4, 8].includes(size))).toEqual([]);
    expect(sizes).toContain(8);
  });
});

describe('parameters that mean nothing', () => {
  it('keep the model from loading, with their place', async () => {
    await startQuantised(`${BATCHING}\n${parameter('batch_settings', 'fast')}`);
    expect(running.engine.catalog.list()[0]).toMatchObject({
      state: 'UNAVAILABLE',
      reason: expect.stringContaining('parameter "batch_settings": expected "auto" or "config", got "fast"') as string,
    });
  });
});
