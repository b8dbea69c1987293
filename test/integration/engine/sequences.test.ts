import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Parameters } from '../../../shared/infer/request.ts';
import type { Engine } from '../../../worker/engine/engine.ts';
import { STATE, makeSequenceExamples, writeStartedSumModel, writeSumModel } from '../../fixtures/sequence-models.ts';
import { f32 as f32Bytes, i32Of } from '../../support/onnx/data.ts';
import { until } from '../../support/redis.ts';
import {
  codeOf,
  type EngineUnderTest,
  f32,
  floatsFrom,
  floatsOf,
  send,
  type Sent,
  startEngine,
  temporaryFolder,
} from './kit.ts';

const START = { sequence_start: true } as const;
const END = { sequence_end: true } as const;
const LONG = 'max_sequence_idle_microseconds: 60000000';

describe('models with sequence batching on ONNX Runtime', () => {
  let folder: ReturnType<typeof temporaryFolder>;
  let open: EngineUnderTest | undefined;
  beforeEach(() => {
    folder = temporaryFolder();
  });
  afterEach(async () => {
    await open?.close();
    open = undefined;
    folder.remove();
  });

  /** `both` has `sum` as its only step. */
  function writeEnsemble(): void {
    mkdirSync(join(folder.path, 'both', '1'), { recursive: true });
    writeFileSync(
      join(folder.path, 'both', 'config.pbtxt'),
      `platform: "ensemble" max_batch_size: 1
       input { name: "x" data_type: TYPE_FP32 dims: [ 1 ] }
       output { name: "y" data_type: TYPE_FP32 dims: [ 1 ] }
       ensemble_scheduling { step { model_name: "sum" model_version: -1
         input_map { key: "x" value: "x" } output_map { key: "y" value: "y" } } }`,
    );
  }

  async function start(): Promise<Engine> {
    open = await startEngine([folder.path]);
    expect(open.engine.catalog.list().map(({ name, state, reason }) => [name, state, reason])).toEqual(
      open.engine.catalog.list().map(({ name }) => [name, 'READY', '']),
    );
    return open.engine;
  }

  function ask(engine: Engine, model: string, id: number | bigint | string, x: number, flags: Parameters = {}): Sent {
    const rank = engine.catalog.resolve(model, '').maxBatchSize > 0 ? [1, 1] : [1];
    return send(engine, model, [f32('x', rank, [x])], { parameters: { sequence_id: id, ...flags } });
  }

  async function sum(engine: Engine, id: number | bigint | string, x: number, flags: Parameters = {}): Promise<number> {
    return (await floatsFrom(ask(engine, 'sum', id, x, flags)))[0]!;
  }

  it.each([
    ['direct', writeSumModel, 'direct { }'],
    ['oldest', writeSumModel, 'oldest { max_candidate_sequences: 3 }'],
    ['direct with START and READY', writeStartedSumModel, 'direct { }'],
    ['oldest with START and READY', writeStartedSumModel, 'oldest { max_candidate_sequences: 3 }'],
  ])('keep the state of each sequence apart (%s)', async (_, write, batching) => {
    write(join(folder.path, 'sum'), { batching, instances: 2 });
    const engine = await start();
    const big = 2n ** 64n - 1n;
    expect(await sum(engine, 1, 10, START)).toBe(10);
    expect(await sum(engine, '1', 100, START)).toBe(100);
    expect(await sum(engine, big, 1000, START)).toBe(1000);
    expect(await sum(engine, 1, 1)).toBe(11);
    expect(await sum(engine, '1', 1)).toBe(101);
    expect(await sum(engine, big, 1)).toBe(1001);
    expect(await sum(engine, 1, 1, END)).toBe(12);
    expect(await codeOf(ask(engine, 'sum', 1, 1))).toBe('INVALID_ARGUMENT');
    expect(await sum(engine, '1', 5, START)).toBe(5);
    expect(await sum(engine, big, 1, END)).toBe(1002);
  });

  it.each(['direct { }', 'oldest { max_candidate_sequences: 3 }'])(
    'answer many sequences at once in the order of each (%s)',
    async (batching) => {
      writeSumModel(join(folder.path, 'sum'), { batching, instances: 2 });
      const engine = await start();
      const sequences = Array.from({ length: 20 }, (_, i) => i + 1);
      const sent = Array.from({ length: 10 }, (_, step) =>
        sequences.map((id) => ask(engine, 'sum', id, id, { sequence_start: step === 0, sequence_end: step === 9 })),
      );
      for (const [step, row] of sent.entries()) {
        for (const [index, each] of row.entries()) expect(await floatsFrom(each)).toEqual([(index + 1) * (step + 1)]);
      }
      expect(engine.pending('sum', '')).toBe(0);
    },
  );

  it('tell a model with READY which rows stand for nothing', async () => {
    writeStartedSumModel(join(folder.path, 'sum'), { batching: 'direct { }' });
    const engine = await start();
    await sum(engine, 1, 1, START);
    await sum(engine, 2, 1, START);
    await sum(engine, 3, 1, START);
    const { outputs, timings } = await ask(engine, 'sum', 3, 1).result;
    expect(outputs.map(({ name }) => name)).toEqual(['y', 'ready']);
    expect(floatsOf(outputs[1])).toEqual([1]);
    expect(timings.batchSize).toBe(3);
  });

  it('work without a batch dimension, one sequence an instance', async () => {
    writeSumModel(join(folder.path, 'sum'), { maxBatchSize: 0, instances: 1 });
    const engine = await start();
    expect(await sum(engine, 1, 1, START)).toBe(1);
    const waits = ask(engine, 'sum', 2, 5, START);
    expect(await sum(engine, 1, 1)).toBe(2);
    expect(engine.pending('sum', '')).toBe(1);
    expect(await sum(engine, 1, 1, END)).toBe(3);
    expect(await floatsFrom(waits)).toEqual([5]);
  });

  it('begin with the content of a file', async () => {
    const state = STATE.replace('zero_data: true', 'data_file: "first.bin"');
    writeSumModel(join(folder.path, 'sum'), { state });
    mkdirSync(join(folder.path, 'sum', 'initial_state'));
    writeFileSync(join(folder.path, 'sum', 'initial_state', 'first.bin'), f32Bytes(40));
    const engine = await start();
    expect(await sum(engine, 1, 2, START)).toBe(42);
    expect(await sum(engine, 1, 1)).toBe(43);
    expect(await sum(engine, 1, 2, START)).toBe(42);
  });

  it.each([
    ['is missing', undefined, /data_file "first.bin" cannot be read/],
    ['has another size', f32Bytes(1, 2), /data_file "first.bin": expected 4 bytes, got 8/],
  ])('are not loaded when that file %s', async (_, content, reason) => {
    const fromFile = STATE.replace('zero_data: true', 'data_file: "first.bin"');
    writeSumModel(join(folder.path, 'sum'), { state: fromFile });
    mkdirSync(join(folder.path, 'sum', 'initial_state'));
    if (content) writeFileSync(join(folder.path, 'sum', 'initial_state', 'first.bin'), content);
    open = await startEngine([folder.path]);
    const [state] = open.engine.catalog.list();
    expect(state?.state).toBe('UNAVAILABLE');
    expect(state?.reason).toMatch(reason);
  });

  it('show neither controls nor states, and keep a state from whoever asks for it', async () => {
    writeStartedSumModel(join(folder.path, 'sum'));
    const engine = await start();
    const { inputs, outputs } = engine.catalog.resolve('sum', '');
    expect(inputs.map(({ name }) => name)).toEqual(['x']);
    expect(outputs.map(({ name }) => name)).toEqual(['y', 'ready']);
    const options = { parameters: { sequence_id: 1, ...START } };
    const asked = send(engine, 'sum', [f32('x', [1, 1], [1])], { ...options, outputs: ['STATE_OUT'] });
    await expect(asked.result).rejects.toThrow(/unknown output STATE_OUT/);
    const given = send(engine, 'sum', [f32('x', [1, 1], [1]), f32('START', [1, 1], [1])], options);
    await expect(given.result).rejects.toThrow(/unknown input START/);
    const one = await send(engine, 'sum', [f32('x', [1, 1], [1])], { ...options, outputs: ['y'] }).result;
    expect(one.outputs.map(({ name }) => name)).toEqual(['y']);
    expect(await sum(engine, 1, 1)).toBe(2);
  });

  it('end a sequence that is silent for too long', async () => {
    writeSumModel(join(folder.path, 'sum'), { batching: 'max_sequence_idle_microseconds: 20000' });
    const engine = await start();
    expect(await sum(engine, 1, 1, START)).toBe(1);
    await until('it has ended', () => open!.log.some(({ event }) => event === 'sequence ended by silence'));
    await expect(ask(engine, 'sum', 1, 1).result).rejects.toThrow(
      /sequence 1 to model 'sum' must specify the START flag/,
    );
  });

  it('answer as Triton’s example models', async () => {
    makeSequenceExamples(folder.path);
    const engine = await start();
    const example = async (model: string, id: number | string, value: number, flags: Parameters = {}) => {
      const input = {
        name: 'INPUT',
        datatype: 'INT32',
        shape: [1, 1],
        data: new Uint8Array(Int32Array.of(value).buffer),
      } as const;
      const { outputs } = await send(engine, model, [input], { parameters: { sequence_id: id, ...flags } }).result;
      return i32Of(outputs[0]!.data)[0];
    };
    expect(await example('simple_sequence', 1001, 0, START)).toBe(1);
    expect(await example('simple_sequence', 1001, 11)).toBe(11);
    expect(await example('simple_sequence', 1001, 1, END)).toBe(1);
    expect(await example('simple_dyna_sequence', 1001, 0, START)).toBe(1);
    expect(await example('simple_dyna_sequence', 1001, 1, END)).toBe(1002);
    expect(await example('simple_string_dyna_sequence', '1001', 0, START)).toBe(1);
    expect(await example('simple_string_dyna_sequence', '1001', 1, END)).toBe(1002);
    const text = send(engine, 'simple_dyna_sequence', [], { parameters: { sequence_id: 'one', ...START } });
    await expect(text.result).rejects.toThrow(/takes as sequence_id a number up to 18446744073709551615/);
  });

  it('are lost aloud when their model is loaded anew or unloaded, through an ensemble too', async () => {
    writeSumModel(join(folder.path, 'sum'), { batching: LONG });
    writeEnsemble();
    open = await startEngine([folder.path], { controlMode: 'explicit', loadAtStart: ['*'] });
    const { engine } = open;
    const step = (model: string, flags: Parameters = {}) => floatsFrom(ask(engine, model, model, 1, flags));
    const changes = [
      () => {
        writeSumModel(join(folder.path, 'sum'), { batching: `${LONG} direct { }` });
        return engine.control.load('sum');
      },
      async () => {
        await engine.control.unload('sum');
        await engine.control.load('sum');
      },
    ];
    for (const change of changes) {
      for (const model of ['sum', 'both']) expect(await step(model, START)).toEqual([1]);
      await change();
      for (const model of ['sum', 'both']) {
        await expect(step(model)).rejects.toMatchObject({
          code: 'UNAVAILABLE',
          message: expect.stringMatching(/sequence .* of model 'sum' was lost: its model was loaded anew/) as string,
        });
        expect(await step(model, START)).toEqual([1]);
        expect(await step(model, END)).toEqual([2]);
        await expect(step(model)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
      }
    }
  });

  it('are steps of an ensemble', async () => {
    writeSumModel(join(folder.path, 'sum'));
    writeEnsemble();
    const engine = await start();
    const floats = async (x: number, flags: Parameters = {}) => floatsFrom(ask(engine, 'both', 7, x, flags));
    expect(await floats(1, START)).toEqual([1]);
    expect(await floats(2)).toEqual([3]);
    expect(await floats(3, END)).toEqual([6]);
    await expect(ask(engine, 'both', 7, 1).result).rejects.toThrow(/must specify the START flag/);
  });
});
