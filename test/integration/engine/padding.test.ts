import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { InferResponse } from '../../../shared/infer/response.ts';
import * as graphs from '../../fixtures/graphs.ts';
import { type OnnxModel, writeModel } from '../../support/onnx/model.ts';
import type { EngineUnderTest, Sent } from './kit.ts';
import { batchSizesOf, codeOf, f32, floatsFrom, floatsOf, send, startEngine, statsOf, temporaryFolder } from './kit.ts';
import { MINILM_INPUTS, parameters, textInputs, tokens, writeMinilm } from './minilm-models.ts';

let folder: ReturnType<typeof temporaryFolder>;
let running: EngineUnderTest | undefined;

beforeEach(() => {
  folder = temporaryFolder();
  running = undefined;
});

afterEach(async () => {
  await running?.close();
  folder.remove();
});

const WAITING = 'dynamic_batching { max_queue_delay_microseconds: 100000 } ';
const PADDED = { 'padding.inputs': MINILM_INPUTS, 'padding.outputs': 'last_hidden_state' };

/** Keeps the wait for company, whatever a run in company costs on this machine. */
const KEEP_DELAY = parameters({ batch_curve: 'off' });

async function start() {
  running = await startEngine([folder.path]);
  return running.engine;
}

/** Distance of two answers, at most in any number. */
function furthest(a: InferResponse, b: InferResponse): number {
  let most = 0;
  for (const [index, output] of a.outputs.entries()) {
    const own = floatsOf(output);
    const other = floatsOf(b.outputs[index]);
    expect(b.outputs[index]?.shape).toEqual(output.shape);
    for (const [at, value] of own.entries()) most = Math.max(most, Math.abs(value - (other[at] ?? NaN)));
  }
  return most;
}

describe('padding MiniLM', () => {
  it('answers texts of different lengths in one run as it answers them alone, states of tokens too', async () => {
    writeMinilm(folder.path, { alone: '', padded: WAITING + KEEP_DELAY + parameters(PADDED) });
    const engine = await start();
    expect(running!.log.filter(({ level }) => level === 'warn')).toEqual([]);
    const texts = [17, 20, 23, 25, 29, 31, 32, 18].map((length, seed) => textInputs(tokens(length, seed)));
    const together = await Promise.all(texts.map((inputs) => send(engine, 'padded', inputs).result));
    for (const [index, inputs] of texts.entries()) {
      const alone = await send(engine, 'alone', inputs).result;
      expect(together[index]!.outputs.map(({ shape }) => shape)).toEqual([
        [1, 384],
        [1, inputs[0]!.shape[1], 384],
      ]);
      expect(furthest(alone, together[index]!)).toBeLessThan(1e-5);
    }
    expect(batchSizesOf(engine, 'padded')).toEqual({ 8: 1 });
    const { batchElements, paddedElements } = statsOf(engine, 'padded');
    expect([batchElements, paddedElements]).toEqual([8 * 32, 8 * 32 - (17 + 20 + 23 + 25 + 29 + 31 + 32 + 18)]);
  });

  it('runs mixed lengths in far fewer runs than requests, and only those of one bucket together', async () => {
    const buckets = { ...PADDED, 'padding.length_buckets': '16,32' };
    writeMinilm(folder.path, { exact: WAITING + KEEP_DELAY, buckets: WAITING + KEEP_DELAY + parameters(buckets) });
    const engine = await start();
    const lengths = Array.from({ length: 32 }, (_, index) => 5 + index); // up to 36, four of them beyond the last bucket
    const ask = (model: string) => lengths.map((length) => send(engine, model, textInputs(tokens(length, length))));
    const padded = ask('buckets');
    for (const [index, { result }] of padded.entries()) {
      expect((await result).outputs[1]!.shape).toEqual([1, lengths[index], 384]);
    }
    await Promise.all(ask('exact').map(({ result }) => result));
    expect(batchSizesOf(engine, 'buckets')).toEqual({ 12: 1, 16: 1, 1: 4 });
    expect(statsOf(engine, 'exact').executionCount).toBe(32);
  });

  it('pads a lone request only where the config asks for equal shapes', async () => {
    const rounded = { ...PADDED, 'padding.length_buckets': '16,32', 'padding.round_up': 'true' };
    const both = 'dynamic_batching { } ';
    writeMinilm(folder.path, { longest: both + parameters(PADDED), rounded: both + parameters(rounded) });
    const engine = await start();
    const inputs = textInputs(tokens(9, 1));
    const plain = await send(engine, 'longest', inputs).result;
    const even = await send(engine, 'rounded', inputs).result;
    expect(furthest(plain, even)).toBeLessThan(1e-5);
    expect(statsOf(engine, 'longest').paddedElements).toBe(0);
    expect(statsOf(engine, 'rounded')).toMatchObject({ batchElements: 16, paddedElements: 7 });
  });

  it('makes up a mask that clients leave out', async () => {
    const generated = { ...PADDED, 'padding.inputs': MINILM_INPUTS.replace('=mask', '=generated_mask') };
    writeMinilm(folder.path, { m: WAITING + KEEP_DELAY + parameters(generated) });
    const engine = await start();
    const [short, long] = [textInputs(tokens(10, 1)), textInputs(tokens(16, 2))];
    const without = (inputs: typeof short) => inputs.filter(({ name }) => name !== 'attention_mask');
    const alone = [await send(engine, 'm', short).result, await send(engine, 'm', without(long)).result];
    const made = await Promise.all([send(engine, 'm', without(short)).result, send(engine, 'm', long).result]);
    for (const [index, answer] of made.entries()) expect(furthest(alone[index]!, answer)).toBeLessThan(1e-5);
    expect(batchSizesOf(engine, 'm')).toEqual({ 1: 2, 2: 1 });
    expect(engine.catalog.resolve('m', '').inputs.find(({ name }) => name === 'attention_mask')?.optional).toBe(true);
  });

  it('fails the guilty request of a padded run alone', async () => {
    writeMinilm(folder.path, { padded: WAITING + KEEP_DELAY + parameters(PADDED) });
    const engine = await start();
    const good = [9, 12, 15].map((length) => send(engine, 'padded', textInputs(tokens(length, length))));
    const bad = send(engine, 'padded', textInputs([1, 2, 3, 4, 5, 6, 7, 8, 9, 10_000_000]));
    expect(await codeOf(bad)).not.toBe('fulfilled');
    expect(await Promise.all(good.map(codeOf))).toEqual(['fulfilled', 'fulfilled', 'fulfilled']);
    expect((await good[0]!.result).outputs[1]!.shape).toEqual([1, 9, 384]);
  });

  it('does not make inputs fit each other that do not', async () => {
    writeMinilm(folder.path, { padded: WAITING + KEEP_DELAY + parameters(PADDED) });
    const engine = await start();
    const uneven = send(engine, 'padded', textInputs(tokens(9, 1), Array<number>(11).fill(1)));
    const even = send(engine, 'padded', textInputs(tokens(11, 1)));
    expect(await codeOf(uneven)).toBe('INVALID_ARGUMENT');
    expect(await codeOf(even)).toBe('fulfilled');
  });

  it('pads the step of an ensemble, whose requests get their own lengths', async () => {
    writeMinilm(folder.path, { inner: WAITING + KEEP_DELAY + parameters(PADDED) });
    mkdirSync(join(folder.path, 'outer', '1'), { recursive: true });
    const names = ['input_ids', 'attention_mask', 'token_type_ids', 'last_hidden_state'];
    const map = (name: string, kind: string) => `${kind}_map { key: "${name}" value: "${name}" }`;
    writeFileSync(
      join(folder.path, 'outer', 'config.pbtxt'),
      `platform: "ensemble" max_batch_size: 32
       input [ ${names
         .slice(0, 3)
         .map((name) => `{ name: "${name}" data_type: TYPE_INT64 dims: -1 }`)
         .join()} ]
       output { name: "last_hidden_state" data_type: TYPE_FP32 dims: [ -1, 384 ] }
       ensemble_scheduling { step { model_name: "inner" model_version: -1
         ${names.map((name, index) => map(name, index < 3 ? 'input' : 'output')).join(' ')} } }`,
    );
    const engine = await start();
    const lengths = [9, 12, 16];
    const sent = lengths.map((length) => send(engine, 'outer', textInputs(tokens(length, length))).result);
    const shapes = (await Promise.all(sent)).map(({ outputs }) => outputs[0]!.shape);
    expect(shapes).toEqual(lengths.map((length) => [1, length, 384]));
    expect(batchSizesOf(engine, 'inner')).toEqual({ 3: 1 });
  });
});

/** The mean over the length, which padding changes. */
const rowmean: OnnxModel = {
  inputs: [{ name: 'x', datatype: 'FP32', shape: [-1, -1] }],
  outputs: [{ name: 'y', datatype: 'FP32', shape: [-1] }],
  nodes: [
    { op: 'ReduceMean', inputs: ['x'], outputs: ['y'], attributes: { axes: { ints: [1] }, keepdims: { int: 0 } } },
  ],
};

/** Every second number, so that the answer has another length. */
const halved: OnnxModel = {
  inputs: [{ name: 'x', datatype: 'FP32', shape: [-1, -1] }],
  outputs: [{ name: 'y', datatype: 'FP32', shape: [-1, -1] }],
  nodes: [{ op: 'Slice', inputs: ['x', 'from', 'to', 'axes', 'steps'], outputs: ['y'] }],
  initializers: [
    ['from', 0],
    ['to', 1_000_000],
    ['axes', 1],
    ['steps', 2],
  ].map(([name, value]) => ({
    name: String(name),
    datatype: 'INT64',
    shape: [1],
    data: new Uint8Array(new BigInt64Array([BigInt(value!)]).buffer),
  })),
};

const SCALAR = 'output { name: "y" data_type: TYPE_FP32 dims: 1 reshape { } } ';
const SEQUENCE = 'output { name: "y" data_type: TYPE_FP32 dims: -1 } ';
const X = { 'padding.inputs': 'x=0' };
const XY = { ...X, 'padding.outputs': 'y' };

function write(graph: OnnxModel, config: string): void {
  const model = join(folder.path, 'm');
  writeModel(join(model, '1', 'model.onnx'), graph);
  const input = 'input { name: "x" data_type: TYPE_FP32 dims: -1 } ';
  writeFileSync(join(model, 'config.pbtxt'), `max_batch_size: 8 ${input}${config}${KEEP_DELAY}`);
}

const warnings = () => running!.log.filter(({ level }) => level === 'warn');
const row = (...values: number[]): Sent => send(running!.engine, 'm', [f32('x', [1, values.length], values)]);

describe('the test of padding at load', () => {
  it('switches padding off aloud for a model that answers otherwise when padded', async () => {
    write(rowmean, WAITING + SCALAR + parameters(X));
    await start();
    expect(warnings()).toEqual([
      expect.objectContaining({
        event: 'padding changes answers and is switched off, requests of different lengths do not share a run',
        fields: {
          model: 'm',
          version: '1',
          reason: expect.stringMatching(
            /^its output 'y' differs by 0\.\d+ of its size, allowed are 0\.001; /,
          ) as string,
        },
      }),
    ]);
    expect(await Promise.all([row(2, 4), row(3), row(1, 2, 6)].map(floatsFrom))).toEqual([[3], [3], [3]]);
    expect(batchSizesOf(running!.engine, 'm')).toEqual({ 1: 3 });
    expect(statsOf(running!.engine, 'm')).toMatchObject({ batchElements: 6, paddedElements: 0 });
  });

  it('switches padding off aloud for an output of another length', async () => {
    write(halved, WAITING + SEQUENCE + parameters(XY));
    await start();
    expect(warnings()[0]?.fields.reason).toMatch(/output 'y' has the shape \[1,4\]: dimension 1 must be 8/);
    expect(await Promise.all([row(1, 2, 3), row(4)].map(floatsFrom))).toEqual([[1, 3], [4]]);
  });

  it('is content where the value of padding means nothing to the model, with or without a mask', async () => {
    write(graphs.rowsum, WAITING + SCALAR + parameters(X));
    await start();
    expect(warnings()).toEqual([]);
    expect(await Promise.all([row(2, 4), row(3), row(1, 2, 6)].map(floatsFrom))).toEqual([[6], [3], [9]]);
    expect(batchSizesOf(running!.engine, 'm')).toEqual({ 3: 1 });
  });

  it('takes the word of a config that leaves it out', async () => {
    write(rowmean, WAITING + SCALAR + parameters({ ...X, 'padding.self_test': 'off' }));
    await start();
    expect(warnings()).toEqual([]);
    expect(await Promise.all([row(2, 4), row(3, 3, 3, 3)].map(floatsFrom))).toEqual([[1.5], [3]]);
  });

  it('lets requests run alone from the first run on whose output has another length, untested', async () => {
    write(halved, WAITING + SEQUENCE + parameters({ ...XY, 'padding.self_test': 'off' }));
    await start();
    expect(await Promise.all([row(1, 2, 3), row(4)].map(floatsFrom))).toEqual([[1, 3], [4]]);
    expect(warnings()[0]?.event).toBe(
      'padding gives outputs of another length and is switched off, requests run alone',
    );
  });

  it('costs a lone request nothing whose run was rounded up and answered in another length, untested', async () => {
    const rounded = { 'padding.round_up': 'true', 'padding.length_buckets': '8', 'padding.self_test': 'off' };
    write(halved, WAITING + SEQUENCE + parameters({ ...XY, ...rounded }));
    await start();
    expect(await floatsFrom(row(1, 2, 3))).toEqual([1, 3]);
    expect(await floatsFrom(row(4, 5))).toEqual([4]);
    expect(warnings()).toHaveLength(1);
  });

  it('is not even begun for a config that is wrong', async () => {
    write(graphs.rowsum, WAITING + SCALAR + parameters({ 'padding.inputs': 'xx=0' }));
    const engine = await start();
    expect(engine.catalog.list()[0]?.reason).toContain(
      'parameter "padding.inputs": input "xx" is not in the config; did you mean "x"?',
    );
  });
});
