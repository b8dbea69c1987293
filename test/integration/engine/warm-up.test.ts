import { appendFileSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Tensor } from '../../../shared/tensor/tensor.ts';
import * as graphs from '../../fixtures/graphs.ts';
import { writeStartedSumModel } from '../../fixtures/sequence-models.ts';
import { type OnnxModel, writeModel } from '../../support/onnx/model.ts';
import type { EngineUnderTest } from './kit.ts';
import { f32, floatsFrom, floatsOf, send, startEngine, statsOf, temporaryFolder } from './kit.ts';
import { watchedBackend, type WatchedInstance } from './watched-backend.ts';

let folder: ReturnType<typeof temporaryFolder>;
let running: EngineUnderTest | undefined;
let instances: WatchedInstance[];

beforeEach(() => {
  folder = temporaryFolder();
  running = undefined;
});

afterEach(async () => {
  await running?.close();
  folder.remove();
});

const ROWS =
  'input { name: "x" data_type: TYPE_FP32 dims: [ -1 ] } output { name: "y" data_type: TYPE_FP32 dims: [ -1 ] }';
const TWO = 'instance_group { count: 2 }';
/** Without the self-test, whose runs would be among the others. */
const NO_BATCHING = `max_batch_size: 1 ${ROWS}`;

/** Loads the model `m`; its reason when it does not load. */
async function load(graph: OnnxModel, config: string, files: Record<string, Uint8Array> = {}): Promise<string> {
  const model = join(folder.path, 'm');
  writeModel(join(model, '1', 'model.onnx'), graph);
  writeFileSync(join(model, 'config.pbtxt'), config);
  mkdirSync(join(model, 'warmup'), { recursive: true });
  for (const [name, data] of Object.entries(files)) writeFileSync(join(model, 'warmup', name), data);
  return await open();
}

async function open(): Promise<string> {
  const watched = watchedBackend();
  ({ instances } = watched);
  running = await startEngine([folder.path], { backend: watched.backend });
  return running.engine.catalog.list()[0]?.reason ?? 'not listed';
}

const entry = (data: string, rest = '', dims = 'dims: [ 3 ]') =>
  `model_warmup { name: "w" ${rest} inputs { key: "x" value { data_type: TYPE_FP32 ${dims} ${data} } } }`;

const float32 = (...values: number[]) => new Uint8Array(new Float32Array(values).buffer);
const shapesOf = (instance: WatchedInstance | undefined) => instance?.runs.map(([x]) => x?.shape);

describe('model_warmup', () => {
  it('runs on every instance before the model is ready, and counts nowhere', async () => {
    const config = `${NO_BATCHING} ${TWO} ${entry('zero_data: true', 'count: 3')}`;
    expect(await load(graphs.identity('FP32'), config)).toBe('');
    expect(instances.map((instance) => instance.runs.length)).toEqual([3, 3]);
    expect(instances[0]?.runs[0]).toEqual([f32('x', [1, 3], [0, 0, 0])]);
    const stats = statsOf(running!.engine, 'm');
    expect([stats.success.count, stats.inferenceCount, stats.executionCount, stats.fail.count]).toEqual([0, 0, 0, 0]);
    expect(await floatsFrom(send(running!.engine, 'm', [f32('x', [1, 2], [4, 5])]))).toEqual([4, 5]);
    expect(stats.executionCount).toBe(1);
  });

  it('repeats the row of an entry up to its batch size', async () => {
    const config = `max_batch_size: 4 ${ROWS} instance_group { count: 1 } ${entry('input_data_file: "row"', 'batch_size: 4')}`;
    expect(await load(graphs.identity('FP32'), config, { row: float32(1, 2, 3) })).toBe('');
    const last = instances[0]?.runs.at(-1)?.[0];
    expect(last?.shape).toEqual([4, 3]);
    expect(floatsOf(last)).toEqual([1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3]);
  });

  it('makes random data that differs from element to element', async () => {
    expect(
      await load(graphs.identity('FP32'), `${NO_BATCHING} ${entry('random_data: true', '', 'dims: [ 200 ]')}`),
    ).toBe('');
    const values = floatsOf(instances[0]?.runs[0]?.[0]);
    expect(new Set(values).size).toBeGreaterThan(50);
    expect(values.every((value) => value >= 0 && value < 1)).toBe(true);
  });

  it('takes texts in the form of the protocol, and empty ones for zeros', async () => {
    const texts = Buffer.concat([Buffer.from([3, 0, 0, 0]), Buffer.from('233'), Buffer.from([0, 0, 0, 0])]);
    const io = (data: string) => `inputs { key: "x" value { data_type: TYPE_STRING dims: [ 2 ] ${data} } }`;
    const config = `max_batch_size: 1 ${ROWS.replaceAll('FP32', 'STRING')} instance_group { count: 1 }
model_warmup [ { name: "file" ${io('input_data_file: "texts"')} }, { name: "zero" ${io('zero_data: true')} } ]`;
    expect(await load(graphs.identity('BYTES'), config, { texts })).toBe('');
    expect(instances[0]?.runs.map(([x]) => x?.data.byteLength)).toEqual([11, 8]);
  });

  it('takes the dims of clients as well as the model’s own, where the config reshapes', async () => {
    const config = (dims: string) => `max_batch_size: 8 instance_group { count: 1 }
input { name: "x" data_type: TYPE_FP32 dims: [ 2, 2 ] reshape { shape: [ 4 ] } }
output { name: "y" data_type: TYPE_FP32 dims: [ 4 ] }
${entry('zero_data: true', 'batch_size: 2', dims)}`;
    const graph: OnnxModel = {
      ...graphs.identity('FP32'),
      inputs: [{ name: 'x', datatype: 'FP32', shape: ['b', 4] }],
      outputs: [{ name: 'y', datatype: 'FP32', shape: ['b', 4] }],
    };
    for (const dims of ['dims: [ 2, 2 ]', 'dims: [ 4 ]']) {
      expect(await load(graph, config(dims))).toBe('');
      expect(instances[0]?.runs.at(-1)?.[0]?.shape).toEqual([2, 4]);
      await running?.close();
    }
  });

  it('leaves optional inputs out, or runs with them', async () => {
    const config = `max_batch_size: 1 instance_group { count: 1 }
input [ { name: "a" data_type: TYPE_FP32 dims: [ -1 ] }, { name: "b" data_type: TYPE_FP32 dims: [ -1 ] optional: true } ]
output { name: "y" data_type: TYPE_FP32 dims: [ -1 ] }
model_warmup { name: "a" inputs { key: "a" value { data_type: TYPE_FP32 dims: [ 1 ] zero_data: true } } }
model_warmup { name: "both"
  inputs { key: "a" value { data_type: TYPE_FP32 dims: [ 1 ] zero_data: true } }
  inputs { key: "b" value { data_type: TYPE_FP32 dims: [ 1 ] zero_data: true } } }`;
    expect(await load(graphs.twoInOptional, config)).toBe('');
    const names = (inputs: readonly Tensor[]) => inputs.map(({ name }) => name);
    expect(instances[0]?.runs.map(names)).toEqual([['a'], ['a', 'b']]);
  });

  it.each([
    ['a file that is not there', 'input_data_file: "other"', 'input "x": warmup/other cannot be read'],
    ['a file of the wrong size', 'input_data_file: "row"', 'input "x": warmup/row: expected 12 bytes, got 8'],
    ['a link that leads out', 'input_data_file: "link"', 'input "x": warmup/link cannot be read'],
    ['a folder', 'input_data_file: "."', 'input "x": warmup/. cannot be read'],
  ])('does not load with %s, and names the entry', async (_, data, problem) => {
    mkdirSync(join(folder.path, 'm', 'warmup'), { recursive: true });
    symlinkSync('/etc/hostname', join(folder.path, 'm', 'warmup', 'link'));
    const reason = await load(graphs.identity('FP32'), `${NO_BATCHING} ${entry(data)}`, { row: float32(1, 2) });
    expect(reason).toContain(`model "m": model_warmup "w": ${problem}`);
    expect(reason).not.toContain(folder.path);
    expect(instances.every(({ closed }) => closed)).toBe(true);
  });

  it('does not load when a run fails, and names the entry', async () => {
    const io = 'data_type: TYPE_INT64 dims: [ 1 ]';
    const config = `max_batch_size: 8 input { name: "x" ${io} } output { name: "y" ${io} }
model_warmup { name: "too far" inputs { key: "x" value { ${io} input_data_file: "x" } } }`;
    const x = new Uint8Array(new BigInt64Array([99n]).buffer);
    const reason = await load(graphs.divInt, config, { x });
    expect(reason).toContain('model "m": model_warmup "too far": ');
    expect(reason).toContain('indices element out of data bounds');
    expect(instances.every(({ closed }) => closed)).toBe(true);
  });

  it('refuses an entry before anything runs', async () => {
    const reason = await load(graphs.identity('FP32'), `${NO_BATCHING} ${entry('zero_data: true', 'batch_size: 2')}`);
    expect(reason).toContain('model_warmup "w": batch_size: expected up to max_batch_size (1), got 2');
    expect(instances).toEqual([]);
  });

  it('fills what the server itself sends to a sequence model with zeros', async () => {
    const model = join(folder.path, 'm');
    writeStartedSumModel(model, { maxBatchSize: 4, instances: 1 });
    const start = 'inputs { key: "START" value { data_type: TYPE_FP32 dims: [ 1 ] input_data_file: "one" } }';
    const x = 'inputs { key: "x" value { data_type: TYPE_FP32 dims: [ 1 ] zero_data: true } }';
    appendFileSync(join(model, 'config.pbtxt'), `\nmodel_warmup { name: "w" batch_size: 3 ${x} ${start} }\n`);
    mkdirSync(join(model, 'warmup'));
    writeFileSync(join(model, 'warmup', 'one'), float32(1));
    expect(await open()).toBe('');
    const last = Object.fromEntries(instances[0]?.runs.at(-1)?.map((tensor) => [tensor.name, tensor]) ?? []);
    expect(Object.values(last).map(({ name, shape }) => [name, shape])).toEqual([
      ['x', [3, 1]],
      ['START', [3, 1]],
      ['READY', [3, 1]],
      ['STATE_IN', [3, 1]],
    ]);
    expect(floatsOf(last['START'])).toEqual([1, 1, 1]);
  });
});

describe('without model_warmup', () => {
  it('runs once on every instance, so that the first request is not the slow one', async () => {
    expect(await load(graphs.identity('FP32'), `${NO_BATCHING} ${TWO}`)).toBe('');
    expect(instances.map(shapesOf)).toEqual([[[1, 4]], [[1, 4]]]);
    expect(statsOf(running!.engine, 'm').executionCount).toBe(0);
  });

  it('loads a model all the same that does not take made-up input', async () => {
    const io = 'data_type: TYPE_INT64 dims: [ 1 ]';
    const config = `max_batch_size: 1 input { name: "x" ${io} } output { name: "y" ${io} }`;
    const oneElement = { name: 'table', datatype: 'INT64', shape: [1], data: new Uint8Array(8) } as const;
    expect(await load({ ...graphs.divInt, initializers: [oneElement] }, config)).toBe('');
    expect(running?.log.map(({ event }) => event)).toContain('model does not take made-up input, not warmed up');
  });
});
