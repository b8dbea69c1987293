import { setImmediate as nextTurn } from 'node:timers/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { InferError } from '../../../shared/errors.ts';
import { makeFixtureModel, makeFixtureRepository } from '../../fixtures/make-models.ts';
import { writeUnbatchable } from './unbatchable-models.ts';
import type { EngineUnderTest, Sent } from './kit.ts';
import {
  batchSizesOf,
  codeOf,
  f32,
  floatsFrom,
  floatsOf,
  i64,
  intsFrom,
  send,
  startEngine,
  statsOf,
  strings,
  temporaryFolder,
} from './kit.ts';

let folder: ReturnType<typeof temporaryFolder>;
let running: EngineUnderTest;

beforeEach(() => {
  folder = temporaryFolder();
});

afterEach(async () => {
  await running.close();
  folder.remove();
});

async function start(...models: string[]) {
  makeFixtureRepository(folder.path, models);
  running = await startEngine([folder.path]);
  return running.engine;
}

const x = (values: readonly number[], rows = 1) => [f32('x', [rows, values.length / rows], values)];

describe('batching on real models', () => {
  it('gives each of three parallel callers its own row, 500 times (C01)', async () => {
    const io =
      'input { name: "x" data_type: TYPE_FP32 dims: -1 } output { name: "y" data_type: TYPE_FP32 dims: 1 reshape { } }';
    const batching = 'max_batch_size: 8 dynamic_batching { max_queue_delay_microseconds: 1000 }';
    makeFixtureModel(join(folder.path, 'rowsum'), 'rowsum', `${batching} ${io}`);
    running = await startEngine([folder.path]);
    const { engine } = running;
    for (let round = 0; round < 500; round += 1) {
      const sent = [1, 2, 3].map((value) => send(engine, 'rowsum', x([round, value, value])));
      const sums = await Promise.all(sent.map(floatsFrom));
      expect(sums).toEqual([[round + 2], [round + 4], [round + 6]]);
      if (round === 0) expect((await sent[0]!.result).outputs[0]!.shape).toEqual([1, 1]);
    }
    expect(batchSizesOf(engine, 'rowsum')[3]).toBeGreaterThan(0);
  });

  it('makes two batches of four from two shapes in one burst (C03)', async () => {
    const engine = await start('id_f32');
    const rows = [16, 20, 16, 20, 16, 20, 16, 20].map((columns, index) => new Array<number>(columns).fill(index));
    const sent = rows.map((row) => send(engine, 'id_f32', x(row)));
    expect(await Promise.all(sent.map(floatsFrom))).toEqual(rows);
    expect(batchSizesOf(engine, 'id_f32')).toEqual({ 4: 2 });
    expect(statsOf(engine, 'id_f32').releases.shape).toBeGreaterThan(0);
  });

  it('keeps requests with and without an optional input in batches of their own (C04)', async () => {
    const engine = await start('two_in_opt');
    const sent = Array.from({ length: 8 }, (_, index) => {
      const a = f32('a', [1, 2], [index, index]);
      return send(engine, 'two_in_opt', index % 2 === 0 ? [a] : [a, f32('b', [1, 2], [100, 200])]);
    });
    const answers = await Promise.all(sent.map(floatsFrom));
    const alone = await floatsFrom(send(engine, 'two_in_opt', [f32('a', [1, 2], [0, 0])]));
    for (const [index, answer] of answers.entries()) {
      const expected = index % 2 === 0 ? alone.map((value) => value + index) : [index + 100, index + 200];
      expect(answer).toEqual(expected);
    }
    expect(batchSizesOf(engine, 'two_in_opt')).toEqual({ 1: 1, 4: 2 });
  });

  it('refuses nine rows with a maximum of eight and names it (C06)', async () => {
    const engine = await start('id_f32');
    const sent = send(engine, 'id_f32', x(new Array<number>(9).fill(1), 9));
    await expect(sent.result).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: expect.stringMatching(/8/) as string,
    });
  });

  it('runs 40 rows in exactly two batches of 20 behind a busy instance, and 80 in four (C07)', async () => {
    const limits = 'max_batch_size: 20 dynamic_batching { max_queue_delay_microseconds: 50000 }';
    const io = 'input { name: "x" data_type: TYPE_INT64 dims: 1 } output { name: "y" data_type: TYPE_INT64 dims: 1 }';
    makeFixtureModel(join(folder.path, 'slow'), 'slow', `${limits} ${io} instance_group { count: 1 kind: KIND_CPU }`);
    running = await startEngine([folder.path]);
    const { engine } = running;
    let full = 0;
    for (const count of [40, 80]) {
      const busy = send(engine, 'slow', [i64('x', [20, 1], new Array<number>(20).fill(1))]);
      const sent = Array.from({ length: count }, () => send(engine, 'slow', [i64('x', [1, 1], [0])]));
      await Promise.all([busy, ...sent].map(intsFrom));
      full += 1 + count / 20;
      expect(batchSizesOf(engine, 'slow')).toEqual({ 20: full });
    }
  });

  it('fails only the request that the model refuses, wherever it stands in the batch (C10)', async () => {
    const engine = await start('div_int');
    for (const bad of [0, 3, 7]) {
      const sent = Array.from({ length: 8 }, (_, index) =>
        send(engine, 'div_int', [i64('x', [1, 1], [index === bad ? 99 : index])]),
      );
      for (const [index, one] of sent.entries()) {
        if (index === bad) await expect(one.result).rejects.toBeInstanceOf(InferError);
        else expect(await intsFrom(one)).toEqual([100 + index]);
      }
    }
    const good = Array.from({ length: 100 }, (_, index) => send(engine, 'div_int', [i64('x', [1, 1], [index % 10])]));
    expect(await Promise.all(good.map(intsFrom))).toEqual(good.map((_, index) => [100 + (index % 10)]));
    expect(statsOf(engine, 'div_int').failures).toMatchObject({ BACKEND: 3 });
  });

  it('takes one row at a time where the batch dimension is not real, and never gives wrong rows (C12)', async () => {
    writeUnbatchable(folder.path);
    running = await startEngine([folder.path]);
    const { engine, log } = running;
    const warnings = log.filter(({ event }) => event.startsWith('model cannot batch'));
    expect(warnings.map(({ fields }) => fields.model).sort()).toEqual(['centred', 'first_row']);
    for (const model of ['centred', 'first_row']) {
      const sent = [1, 2, 3, 4].map((value) => send(engine, model, x([value, value])));
      const answers = await Promise.all(sent.map(floatsFrom));
      expect(answers).toEqual(model === 'centred' ? answers.map(() => [0, 0]) : [1, 2, 3, 4].map((v) => [v, v]));
      await expect(send(engine, model, x([1, 1, 2, 2], 2)).result).rejects.toMatchObject({
        code: 'INVALID_ARGUMENT',
        message: expect.stringContaining('the model cannot batch') as string,
      });
    }
  });

  it('gives companions that ask for different outputs their own (C13)', async () => {
    const engine = await start('simple');
    const inputs = (value: number) => ['INPUT0', 'INPUT1'].map((name) => int32(name, value));
    const wanted = [['OUTPUT1'], ['OUTPUT0'], [], ['OUTPUT1', 'OUTPUT0']];
    const sent = wanted.map((outputs, index) =>
      send(engine, 'simple', inputs(index + 1), { outputs, parameters: { index } }),
    );
    const responses = await Promise.all(sent.map(({ result }) => result));
    expect(responses.map(({ outputs }) => outputs.map(({ name }) => name))).toEqual([
      ['OUTPUT1'],
      ['OUTPUT0'],
      ['OUTPUT0', 'OUTPUT1'],
      ['OUTPUT0', 'OUTPUT1'],
    ]);
    expect(new Int32Array(new Uint8Array(responses[1]!.outputs[0]!.data).buffer)[0]).toBe(4);
    expect(responses[0]!.outputs[0]!.data.every((byte) => byte === 0)).toBe(true);
  });

  it('gives a row the same answer alone and in batches of two to eight (C15)', async () => {
    const engine = await start('mlp');
    const row = Array.from({ length: 32 }, (_, index) => Math.sin(index));
    const alone = await floatsFrom(send(engine, 'mlp', x(row)));
    for (let rows = 2; rows <= 8; rows += 1) {
      const batch = new Array<number[]>(rows).fill(row).flat();
      const [first, second] = [
        await floatsFrom(send(engine, 'mlp', x(batch, rows))),
        await floatsFrom(send(engine, 'mlp', x(batch, rows))),
      ];
      expect(second).toEqual(first);
      for (const [index, value] of first.entries()) expect(value).toBeCloseTo(alone[index % 10]!, 5);
    }
  });

  it('refuses a tensor whose bytes do not fill its shape, and its companions go on (C16)', async () => {
    const engine = await start('id_f32');
    const short = { name: 'x', datatype: 'FP32', shape: [8, 4], data: new Uint8Array(3 * 16) } as const;
    const companion = send(engine, 'id_f32', x([1, 2]));
    await expect(send(engine, 'id_f32', [short]).result).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: expect.stringMatching(/128.*48/) as string,
    });
    expect(await floatsFrom(companion)).toEqual([1, 2]);
  });

  it('batches texts of any length and keeps their bytes', async () => {
    const engine = await start('id_str');
    const texts = ['', 'a', 'zwölf', 'nul\u0000in', 'x'.repeat(1000)];
    const sent = texts.map((text) => send(engine, 'id_str', [strings('x', [1, 2], [text, text])]));
    for (const [index, one] of sent.entries()) {
      const output = (await one.result).outputs[0]!;
      expect(output.shape).toEqual([1, 2]);
      expect(Buffer.from(output.data)).toEqual(Buffer.from(strings('x', [1, 2], [texts[index]!, texts[index]!]).data));
    }
    expect(batchSizesOf(engine, 'id_str')).toEqual({ 5: 1 });
  });

  it('expands pixels into the floats of the model, alone and in a batch', async () => {
    const engine = await start('img224');
    const encoding = { layout: 'NCHW', rescale: 1 / 255, mean: [0.5, 0.25, 0], std: [0.5, 0.5, 1] } as const;
    const picture = (shade: number) => {
      const data = new Uint8Array(224 * 224 * 3);
      for (let i = 0; i < data.length; i += 1) data[i] = (shade + 50 * (i % 3)) % 256;
      return [{ name: 'x', datatype: 'FP32', shape: [1, 3, 224, 224], data, pixels: encoding } as const];
    };
    const sent = [0, 100].map((shade) => send(engine, 'img224', picture(shade)));
    const means = await Promise.all(sent.map(floatsFrom));
    for (const [index, shade] of [0, 100].entries()) {
      const expected = [0, 1, 2].map((c) => ((shade + 50 * c) / 255 - encoding.mean[c]!) / encoding.std[c]!);
      for (const [channel, value] of expected.entries()) expect(means[index]![channel]).toBeCloseTo(value, 4);
    }
  });

  it('serves models without a batch dimension and scalars, one request a run', async () => {
    const io =
      'input { name: "x" data_type: TYPE_FP32 dims: -1 } output { name: "y" data_type: TYPE_FP32 dims: 1 reshape { } }';
    makeFixtureModel(join(folder.path, 'reshaped'), 'scalar', `name: "reshaped" ${io}`);
    const engine = await start('id_nobatch', 'scalar');
    const sent = [1, 2, 3].map((value) => send(engine, 'id_nobatch', [f32('x', [1, 2], [value, value])]));
    expect(await Promise.all(sent.map(floatsFrom))).toEqual([1, 2, 3].map((v) => [v, v]));
    expect(statsOf(engine, 'id_nobatch')).toMatchObject({ executionCount: 3 });
    for (const [model, shape] of [
      ['scalar', []],
      ['reshaped', [1]],
    ] as const) {
      const sum = await send(engine, model, [f32('x', [3], [1, 2, 3])]).result;
      expect([sum.outputs[0]!.shape, floatsOf(sum.outputs[0])]).toEqual([shape, [6]]);
    }
  });

  it('answers a request at its deadline while another runs longer (E01)', async () => {
    const engine = await start('slow');
    const slow = Array.from({ length: 4 }, () => send(engine, 'slow', [i64('x', [4, 1], [10, 10, 10, 10])]));
    const queued = send(engine, 'slow', [i64('x', [1, 1], [1])], { timeoutMs: 150 });
    expect(await codeOf(queued)).toBe('DEADLINE_EXCEEDED');
    for (const one of slow) one.call.cancel(new InferError('CANCELLED', 'enough'));
  });

  it('never runs requests whose callers have gone (E04)', async () => {
    const engine = await start('slow');
    const busy = [1, 2].map(() => send(engine, 'slow', [i64('x', [4, 1], [2, 2, 2, 2])]));
    await nextTurn(); // they run
    const dead: Sent[] = Array.from({ length: 200 }, () => send(engine, 'slow', [i64('x', [1, 1], [40])]));
    expect(engine.pending('slow', '')).toBe(200);
    for (const one of dead) one.call.cancel(new InferError('CANCELLED', 'client gone'));
    expect(engine.pending('slow', '')).toBe(0);
    const good = Array.from({ length: 50 }, (_, index) => send(engine, 'slow', [i64('x', [1, 1], [index % 2])]));
    expect(await Promise.all(dead.map(codeOf))).toEqual(dead.map(() => 'CANCELLED'));
    expect(await Promise.all(good.map(intsFrom))).toEqual(good.map((_, index) => [index % 2]));
    await Promise.all(busy.map(intsFrom));
    const stats = statsOf(engine, 'slow');
    expect([stats.inferenceCount, stats.failures.CANCELED]).toEqual([58, 200]);
  });

  it('stops a run whose only caller has gone, and the instance serves the next', async () => {
    const engine = await start('slow');
    const endless = [1, 2].map(() => send(engine, 'slow', [i64('x', [4, 1], [9999, 9999, 9999, 9999])]));
    await nextTurn(); // they run
    for (const one of endless) one.call.cancel(new InferError('CANCELLED', 'client gone'));
    expect(await intsFrom(send(engine, 'slow', [i64('x', [1, 1], [1])]))).toEqual([1]);
  });
});

function int32(name: string, value: number) {
  const data = new Uint8Array(new Int32Array(16).fill(value).buffer);
  return { name, datatype: 'INT32', shape: [1, 16], data } as const;
}
