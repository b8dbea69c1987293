import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { encodeModelConfigText } from '../../../shared/model/config-text.ts';
import type { Tensor } from '../../../shared/tensor/tensor.ts';
import * as graphs from '../../fixtures/graphs.ts';
import { type OnnxModel, writeModel } from '../../support/onnx/model.ts';
import type { EngineUnderTest } from './kit.ts';
import { batchSizesOf, codeOf, f32, floatsOf, send, startEngine, temporaryFolder } from './kit.ts';

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

function identityOf(shape: readonly (number | string)[]): OnnxModel {
  const value = (name: string) => ({ name, datatype: 'FP32' as const, shape });
  return { ...graphs.identity('FP32'), inputs: [value('x')], outputs: [value('y')] };
}

async function start(graph: OnnxModel, config: string): Promise<void> {
  writeModel(join(folder.path, 'm', '1', 'model.onnx'), graph);
  writeFileSync(join(folder.path, 'm', 'config.pbtxt'), config);
  running = await startEngine([folder.path]);
  expect(running.engine.catalog.list()[0]?.reason).toBe('');
}

const both = (dims: string, reshape: string) =>
  [`input { name: "x"`, `output { name: "y"`]
    .map((begin) => `${begin} data_type: TYPE_FP32 dims: [ ${dims} ] reshape { shape: [ ${reshape} ] } }`)
    .join('\n');

const BATCHING = 'max_batch_size: 8 dynamic_batching { max_queue_delay_microseconds: 50000 preferred_batch_size: 4 }';

async function ask(...inputs: readonly Tensor[]): Promise<[shape: readonly number[], values: number[]][]> {
  const sent = inputs.map((x) => send(running!.engine, 'm', [x]));
  const responses = await Promise.all(sent.map(({ result }) => result));
  return responses.map(({ outputs: [y] }) => [y!.shape, floatsOf(y)]);
}

describe('reshape', () => {
  it('makes a scalar of one number for each row, alone and in a batch', async () => {
    await start(identityOf(['b']), `${BATCHING} ${both('1', '')}`);
    const rows = [1, 2, 3, 4].map((value) => f32('x', [1, 1], [value]));
    expect(await ask(...rows)).toEqual([1, 2, 3, 4].map((value) => [[1, 1], [value]]));
    expect(batchSizesOf(running!.engine, 'm')).toEqual({ 4: 1 });
    expect(await ask(f32('x', [2, 1], [5, 6]))).toEqual([
      [
        [2, 1],
        [5, 6],
      ],
    ]);
  });

  it('makes a scalar where there is no batch dimension', async () => {
    await start(identityOf([]), both('1', ''));
    expect(await ask(f32('x', [1], [7]))).toEqual([[[1], [7]]]);
  });

  it('keeps open dimensions in their order', async () => {
    await start(identityOf(['b', 'n', 2, 2]), `${BATCHING} ${both('-1, 4', '-1, 2, 2')}`);
    const values = (from: number, count: number) => Array.from({ length: count }, (_, i) => from + i);
    const one = f32('x', [1, 3, 4], values(0, 12));
    const three = f32('x', [3, 3, 4], values(100, 36));
    expect(await ask(one, three)).toEqual([
      [[1, 3, 4], values(0, 12)],
      [[3, 3, 4], values(100, 36)],
    ]);
    expect(batchSizesOf(running!.engine, 'm')).toEqual({ 4: 1 });
  });

  it('adds a dimension of one', async () => {
    await start(identityOf(['b', 1, 'n']), `${BATCHING} ${both('-1', '1, -1')}`);
    expect(await ask(f32('x', [2, 3], [1, 2, 3, 4, 5, 6]))).toEqual([
      [
        [2, 3],
        [1, 2, 3, 4, 5, 6],
      ],
    ]);
  });

  it('takes nothing but the dims of the config from clients', async () => {
    await start(identityOf(['b', 'n', 2, 2]), `${BATCHING} ${both('-1, 4', '-1, 2, 2')}`);
    expect(await codeOf(send(running!.engine, 'm', [f32('x', [1, 1, 2, 2], [1, 2, 3, 4])]))).toBe('INVALID_ARGUMENT');
  });
});

describe('outputs that the config leaves out', () => {
  it('are neither given nor to be had', async () => {
    const io = (name: string) => `{ name: "${name}" data_type: TYPE_INT32 dims: [ 16 ] }`;
    await start(
      graphs.simple,
      `max_batch_size: 8 input [ ${io('INPUT0')}, ${io('INPUT1')} ] output [ ${io('OUTPUT1')} ]`,
    );
    const data = new Uint8Array(new Int32Array(16).fill(3).buffer);
    const inputs = ['INPUT0', 'INPUT1'].map((name) => ({ name, datatype: 'INT32' as const, shape: [1, 16], data }));
    const { outputs } = await send(running!.engine, 'm', inputs).result;
    expect(outputs.map(({ name }) => name)).toEqual(['OUTPUT1']);
    expect(await codeOf(send(running!.engine, 'm', inputs, { outputs: ['OUTPUT0'] }))).toBe('INVALID_ARGUMENT');
  });
});

describe('the config of a loaded model', () => {
  it('is completed, and has the defaults written down', async () => {
    await start(graphs.identity('FP32'), 'instance_group [ { }, { name: "spare" passive: true count: 1 } ]');
    const { config } = running!.engine.catalog.resolve('m', '');
    const tensor = (kind: string, name: string) => [
      `${kind} {`,
      `  name: "${name}"`,
      '  data_type: TYPE_FP32',
      '  dims: [ -1 ]',
      '}',
    ];
    const text = encodeModelConfigText(config);
    for (const lines of [['max_batch_size: 4'], tensor('input', 'x'), tensor('output', 'y')]) {
      expect(text).toContain(lines.join('\n'));
    }
    expect(config).toMatchObject({
      name: 'm',
      backend: 'onnxruntime',
      platform: 'onnxruntime_onnx',
      defaultModelFilename: 'model.onnx',
      versionPolicy: { policyChoice: { case: 'latest', value: { numVersions: 1 } } },
      schedulingChoice: { case: 'dynamicBatching', value: { preferredBatchSize: [4], maxQueueDelayMicroseconds: 0n } },
      optimization: { inputPinnedMemory: { enable: true }, outputPinnedMemory: { enable: true } },
      instanceGroup: [
        { name: 'm_0', count: 2, passive: false, kind: 2 },
        { name: 'spare', count: 1, passive: true, kind: 2 },
      ],
    });
  });
});
