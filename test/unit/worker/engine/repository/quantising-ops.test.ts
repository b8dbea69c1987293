import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { countQuantisingOps } from '../../../../../worker/engine/repository/quantising-ops.ts';
import * as graphs from '../../../../fixtures/graphs.ts';
import { quantisedRows } from '../../../../fixtures/quantised-rows.ts';
import { encodeModel, type OnnxModel } from '../../../../support/onnx/model.ts';

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'millrace-ops-'));
});
afterAll(() => rmSync(folder, { recursive: true }));

function fileOf(data: Uint8Array): string {
  const path = join(folder, 'model.onnx');
  writeFileSync(path, data);
  return path;
}

const count = (model: OnnxModel) => countQuantisingOps(fileOf(encodeModel(model)));

describe('countQuantisingOps', () => {
  it('counts them, and finds none in other models', async () => {
    expect(await count(quantisedRows)).toBe(1);
    expect(await count(graphs.twoIn)).toBe(0);
  });

  it('steps over weights, however large, and over many nodes', async () => {
    const { nodes } = quantisedRows;
    const weights = {
      name: 'w',
      datatype: 'UINT8',
      shape: [3_000_000],
      data: new Uint8Array(3_000_000).fill(0xff),
    } as const;
    const many = new Array(20_000).fill({ op: 'Identity', inputs: ['x'], outputs: ['an output with a long name'] });
    const model = { ...quantisedRows, nodes: [...(many as typeof nodes), ...nodes], initializers: [weights] };
    expect(await count(model)).toBe(1);
  });

  it('says 0 for what is not there or no model', async () => {
    expect(await countQuantisingOps(join(folder, 'none'))).toBe(0);
    expect(await countQuantisingOps(fileOf(Buffer.from('not a model at all')))).toBe(0);
    expect(await countQuantisingOps(fileOf(encodeModel(quantisedRows).subarray(0, 60)))).toBe(0);
    expect(await countQuantisingOps(fileOf(new Uint8Array()))).toBe(0);
  });
});
