import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { InferError } from '../../../shared/errors.ts';
import { decodeBytes } from '../../../shared/tensor/bytes.ts';
import type { Tensor } from '../../../shared/tensor/tensor.ts';
import type { EngineOptions } from '../../../worker/engine/create-engine.ts';
import { labelOf, makeGuidePipeline } from '../../fixtures/guides/models.ts';
import { readGuides } from '../../fixtures/guides/printed.ts';
import { makeFixtureRepository } from '../../fixtures/make-models.ts';
import { f32 as f32Bytes, i64 as i64Bytes } from '../../support/onnx/data.ts';
import { type OnnxModel, writeModel } from '../../support/onnx/model.ts';
import { io, step } from '../../unit/shared/model/ensembles.ts';
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
let running: EngineUnderTest | undefined;

beforeEach(() => {
  folder = temporaryFolder();
});

afterEach(async () => {
  await running?.close();
  running = undefined;
  folder.remove();
});

async function start(options: Partial<EngineOptions> = {}) {
  running = await startEngine([folder.path], options);
  return running.engine;
}

function writeEnsemble(name: string, head: string, ...steps: string[]): void {
  mkdirSync(join(folder.path, name, '1'), { recursive: true });
  const text = `platform: "ensemble" ${head} ensemble_scheduling { ${steps.join('\n')} }`;
  writeFileSync(join(folder.path, name, 'config.pbtxt'), text);
}

function writeOnnx(name: string, config: string, graph: OnnxModel, version = '1'): void {
  writeModel(join(folder.path, name, version, 'model.onnx'), graph);
  writeFileSync(join(folder.path, name, 'config.pbtxt'), `platform: "onnxruntime_onnx" ${config}`);
}

/** y = x + amount, for rows of any length. */
function writeAdder(name: string, amount: number, rest = ''): void {
  const config = `max_batch_size: 8 ${io('input', 'x', [-1])} ${io('output', 'y', [-1])} ${rest}`;
  writeOnnx(name, config, {
    inputs: [{ name: 'x', datatype: 'FP32', shape: [-1, -1] }],
    outputs: [{ name: 'y', datatype: 'FP32', shape: [-1, -1] }],
    nodes: [{ op: 'Add', inputs: ['x', 'amount'], outputs: ['y'] }],
    initializers: [{ name: 'amount', datatype: 'FP32', shape: [1], data: f32Bytes(amount) }],
  });
}

const HEAD = `max_batch_size: 8 ${io('input', 'IN', [-1])} ${io('output', 'OUT', [-1])}`;

function refusalOf(sent: Sent): Promise<string> {
  return sent.result.then(
    () => 'it was answered',
    (error: unknown) => (error instanceof InferError ? error.message : String(error)),
  );
}

async function outputsOf(sent: Sent): Promise<Record<string, Tensor>> {
  const { outputs } = await sent.result;
  return Object.fromEntries(outputs.map((tensor) => [tensor.name, tensor]));
}

describe('ensembles of real models', () => {
  it('pass tensors on, and give each caller its own rows while requests of everybody share batches', async () => {
    makeFixtureRepository(folder.path, ['id_f32', 'rowsum']);
    const head = `max_batch_size: 8 ${io('input', 'IN', [-1])} ${io('output', 'SUM', [1])} ${io('output', 'COPY', [-1])}`;
    writeEnsemble('ens', head, step('id_f32', { x: 'IN' }, { y: 'COPY' }), step('rowsum', { x: 'COPY' }, { y: 'SUM' }));
    const engine = await start();
    const sent = [1, 2, 3, 4].map((value) => send(engine, 'ens', [f32('IN', [1, 2], [value, 10])]));
    const direct = send(engine, 'rowsum', [f32('x', [1, 2], [100, 200])]);
    for (const [index, request] of sent.entries()) {
      const { SUM, COPY } = await outputsOf(request);
      expect(floatsOf(COPY)).toEqual([index + 1, 10]);
      expect(floatsOf(SUM)).toEqual([index + 11]);
      expect(SUM!.shape).toEqual([1, 1]);
    }
    expect(await floatsFrom(direct)).toEqual([300]);
    expect(batchSizesOf(engine, 'id_f32')).toEqual({ 4: 1 });
    expect(statsOf(engine, 'rowsum').executionCount).toBeLessThan(5);
    const { success, inferenceCount, executionCount, queue, computeInfer } = statsOf(engine, 'ens');
    expect([success.count, inferenceCount, executionCount]).toEqual([4, 4, 4]);
    expect(queue.ns).toBeGreaterThan(0);
    expect(computeInfer.ns).toBeGreaterThan(0);
    expect(engine.catalog.resolve('ens', '')).toMatchObject({ platform: 'ensemble', maxBatchSize: 8 });
  });

  it('are refused at load with step and tensor where a tensor is misspelt (G01)', async () => {
    makeFixtureRepository(folder.path, ['id_f32']);
    writeEnsemble(
      'ens',
      HEAD,
      step('id_f32', { x: 'IN' }, { y: 'MIDDLE' }),
      step('id_f32', { x: 'MIDLE' }, { y: 'OUT' }),
    );
    writeEnsemble('names', HEAD, step('id_f32', { X: 'IN' }, { y: 'OUT' }));
    writeEnsemble('types', HEAD.replaceAll('FP32', 'FP16'), step('id_f32', { x: 'IN' }, { y: 'OUT' }));
    const engine = await start();
    const reason = (model: string) => engine.catalog.list().find(({ name }) => name === model)?.reason;
    expect(reason('ens')).toContain('step 2, model "id_f32", input "x": tensor "MIDLE" is written by no step');
    expect(reason('ens')).toContain('did you mean "MIDDLE"?');
    expect(reason('names')).toContain(
      'step 1, model "id_f32": the model has no input "X", its inputs are x; did you mean "x"?',
    );
    expect(reason('types')).toContain(
      'step 1, model "id_f32", input "x": expected datatype FP32, but tensor "IN" is FP16 from input "IN" of the ensemble',
    );
    expect(await codeOf(send(engine, 'id_f32', [f32('x', [1, 1], [1])]))).toBe('fulfilled');
  });

  it('say which step failed, with model, version and cause, and hurt nobody else (G03)', async () => {
    makeFixtureRepository(folder.path, ['id_i64', 'div_int']);
    const int64 = 'data_type: TYPE_INT64';
    const head = `max_batch_size: 8 ${io('input', 'IN', [1], int64)} ${io('output', 'OUT', [1], int64)}`;
    writeEnsemble(
      'ens',
      head,
      step('id_i64', { x: 'IN' }, { y: 'INDEX' }),
      step('div_int', { x: 'INDEX' }, { y: 'OUT' }),
    );
    const engine = await start();
    const good = send(engine, 'ens', [i64('IN', [1, 1], [3])]);
    const bad = send(engine, 'ens', [i64('IN', [1, 1], [77])]);
    const refusal = await refusalOf(bad);
    expect(refusal).toMatch(/^ensemble 'ens', step 2 \(model 'div_int', version 1\): .*(?:indices|index|bounds)/s);
    expect(refusal).toContain("(in this step x is tensor 'INDEX' [1,1])");
    expect(await intsFrom(good)).toEqual([103]);
    expect(statsOf(engine, 'ens').fail.count).toBe(1);
    expect(statsOf(engine, 'div_int').fail.count).toBe(1);
  });

  it('keep the axes between models with and without a batch dimension (G04)', async () => {
    makeFixtureRepository(folder.path, ['id_f32', 'id_nobatch']);
    const [head, first, last] = [
      HEAD,
      step('id_f32', { x: 'IN' }, { y: 'A' }),
      step('id_f32', { x: 'B' }, { y: 'OUT' }),
    ];
    writeEnsemble('ens', head, first, step('id_nobatch', { x: 'A' }, { y: 'B' }), last);
    const oneRow = `${io('input', 'x', [3])} ${io('output', 'y', [3])}`;
    writeOnnx('id_row', oneRow, {
      inputs: [{ name: 'x', datatype: 'FP32', shape: [3] }],
      outputs: [{ name: 'y', datatype: 'FP32', shape: [3] }],
      nodes: [{ op: 'Identity', inputs: ['x'], outputs: ['y'] }],
    });
    writeEnsemble('rows', head, first, step('id_row', { x: 'A' }, { y: 'B' }), last);
    const engine = await start();
    const { OUT } = await outputsOf(send(engine, 'ens', [f32('IN', [2, 3], [1, 2, 3, 4, 5, 6])]));
    expect([OUT!.shape, floatsOf(OUT)]).toEqual([
      [2, 3],
      [1, 2, 3, 4, 5, 6],
    ]);
    const one = await outputsOf(send(engine, 'rows', [f32('IN', [1, 3], [1, 2, 3])]));
    expect([one.OUT!.shape, floatsOf(one.OUT)]).toEqual([
      [1, 3],
      [1, 2, 3],
    ]);
    expect(await refusalOf(send(engine, 'rows', [f32('IN', [2, 3], [1, 2, 3, 4, 5, 6])]))).toBe(
      "ensemble 'rows', step 2 (model 'id_row', version 1): tensor x: expected one row, as there is no batch dimension here (shape [3]), got shape [2,3] (in this step x is tensor 'A' [2,3])",
    );
  });

  it('give no rows for no rows when a detector finds nothing (G07)', async () => {
    makeFixtureRepository(folder.path, ['rowsum', 'id_nobatch']);
    // The rows whose first number is above zero.
    writeOnnx('detector', `${io('input', 'x', [-1, 2])} ${io('output', 'y', [-1, 2])}`, {
      inputs: [{ name: 'x', datatype: 'FP32', shape: ['n', 2] }],
      outputs: [{ name: 'y', datatype: 'FP32', shape: ['found', 2] }],
      nodes: [
        { op: 'Gather', inputs: ['x', 'column'], outputs: ['scores'], attributes: { axis: { int: 1 } } },
        { op: 'Greater', inputs: ['scores', 'zero'], outputs: ['keep'] },
        { op: 'Compress', inputs: ['x', 'keep'], outputs: ['y'], attributes: { axis: { int: 0 } } },
      ],
      initializers: [
        { name: 'column', datatype: 'INT64', shape: [], data: i64Bytes(0) },
        { name: 'zero', datatype: 'FP32', shape: [], data: f32Bytes(0) },
      ],
    });
    const head = `${io('input', 'IN', [-1, 2])} ${io('output', 'SUMS', [-1, 1])} ${io('output', 'BOXES', [-1, -1])}`;
    const detect = step('detector', { x: 'IN' }, { y: 'FOUND' });
    const through = step('id_nobatch', { x: 'FOUND' }, { y: 'BOXES' }); // runs on no rows
    writeEnsemble('ens', head, detect, through, step('rowsum', { x: 'FOUND' }, { y: 'SUMS' }));
    const engine = await start();
    const found = await outputsOf(send(engine, 'ens', [f32('IN', [3, 2], [1, 2, -1, 5, 3, 4])]));
    expect([found.SUMS!.shape, floatsOf(found.SUMS)]).toEqual([
      [2, 1],
      [3, 7],
    ]);
    expect([found.BOXES!.shape, floatsOf(found.BOXES)]).toEqual([
      [2, 2],
      [1, 2, 3, 4],
    ]);
    const nothing = await outputsOf(send(engine, 'ens', [f32('IN', [2, 2], [-1, 2, -1, 5])]));
    expect([nothing.SUMS!.shape, nothing.SUMS!.data.byteLength]).toEqual([[0, 1], 0]);
    expect([nothing.BOXES!.shape, nothing.BOXES!.data.byteLength]).toEqual([[0, 2], 0]);
    const empty = await outputsOf(send(engine, 'ens', [f32('IN', [0, 2], [])]));
    expect(empty.SUMS!.shape).toEqual([0, 1]);
  });

  it('run as a guide prints one: without inputs and outputs, which the steps tell', async () => {
    makeGuidePipeline(folder.path, readGuides().config('rag_pipeline'));
    const engine = await start();
    const { inputs, outputs, config } = engine.catalog.resolve('rag_pipeline', '');
    expect(inputs).toMatchObject([{ name: 'INPUT_TEXT', datatype: 'BYTES', shape: [-1, 1] }]);
    expect(outputs).toMatchObject([{ name: 'OUTPUT_LABEL', datatype: 'BYTES', shape: [-1, 1] }]);
    expect(config.maxBatchSize).toBe(8);
    const texts = ['a fast queue', 'slow slow server', 'model answer answer', 'nothing that it knows'];
    expect(new Set(texts.map(labelOf)).size).toBeGreaterThan(1);
    const { OUTPUT_LABEL } = await outputsOf(send(engine, 'rag_pipeline', [strings('INPUT_TEXT', [4, 1], texts)]));
    expect(decodeBytes(OUTPUT_LABEL!.data).map((label) => Buffer.from(label).toString())).toEqual(texts.map(labelOf));
  });

  it('can be steps of ensembles', async () => {
    writeAdder('one', 1);
    writeAdder('ten', 10);
    writeEnsemble('inner', HEAD, step('one', { x: 'IN' }, { y: 'M' }), step('ten', { x: 'M' }, { y: 'OUT' }));
    writeEnsemble('outer', HEAD, step('inner', { IN: 'IN' }, { OUT: 'M' }), step('one', { x: 'M' }, { y: 'OUT' }));
    const engine = await start();
    expect(await floatsFrom(send(engine, 'outer', [f32('IN', [1, 1], [0])]))).toEqual([12]);
  });

  it('never mix two versions of a member inside one request, while it is replaced under load (G06)', async () => {
    writeAdder('adder', 1);
    const steps = [
      ['IN', 'A'],
      ['A', 'B'],
      ['B', 'OUT'],
    ].map(([x, y]) => step('adder', { x: x! }, { y: y! }));
    writeEnsemble('ens', HEAD, ...steps);
    const engine = await start({ controlMode: 'explicit', loadAtStart: ['ens'] });
    const seen = new Set<number>();
    let going = true;
    const client = async () => {
      while (going) {
        const [sum] = await floatsFrom(send(engine, 'ens', [f32('IN', [1, 1], [0])]));
        seen.add(sum!);
      }
    };
    const clients = [client(), client(), client()];
    const amounts = [10, 100, 1000, 10_000];
    for (const amount of amounts) {
      writeAdder('adder', amount);
      await engine.control.load('adder');
      expect(await floatsFrom(send(engine, 'ens', [f32('IN', [1, 1], [0])]))).toEqual([3 * amount]);
    }
    going = false;
    await Promise.all(clients);
    expect([...seen].filter((sum) => ![1, ...amounts].includes(sum / 3))).toEqual([]);
    expect(statsOf(engine, 'ens').fail.count).toBe(0);
  });

  it('go down with a member that is unloaded, say so, and come back with it (G06)', async () => {
    writeAdder('adder', 1);
    writeEnsemble('ens', HEAD, step('adder', { x: 'IN' }, { y: 'OUT' }));
    const engine = await start({ controlMode: 'explicit', loadAtStart: ['ens'] });
    expect(await floatsFrom(send(engine, 'ens', [f32('IN', [1, 1], [0])]))).toEqual([1]);
    await engine.control.unload('adder');
    expect(await codeOf(send(engine, 'ens', [f32('IN', [1, 1], [0])]))).toBe('UNAVAILABLE');
    const state = () => engine.catalog.list().find(({ name }) => name === 'ens');
    await expect.poll(() => state()?.state).toBe('UNAVAILABLE');
    expect(state()?.reason).toContain('step "adder" was unloaded');
    await engine.control.load('adder');
    expect(await floatsFrom(send(engine, 'ens', [f32('IN', [1, 1], [0])]))).toEqual([1]);
  });
});
