import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { worksByShape } from '../../../../../../worker/engine/backend/onnx/work-by-shape.ts';
import * as graphs from '../../../../../fixtures/graphs.ts';
import { encodeModel, type OnnxModel } from '../../../../../support/onnx/model.ts';
import { ROOT } from '../../../../../support/process.ts';

describe('worksByShape', () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'millrace-shape-'));
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  const fileOf = (data: Uint8Array): string => {
    const path = join(folder, 'model.onnx');
    writeFileSync(path, data);
    return path;
  };
  const ofGraph = (graph: OnnxModel) => worksByShape(fileOf(encodeModel(graph)));

  it('is true for sums and products', async () => {
    expect(await ofGraph(graphs.twoIn)).toBe(true);
  });

  it('is false where an input says how long it takes, or how large a result is', async () => {
    expect(await ofGraph(graphs.slow)).toBe(false);
    const { nodes } = graphs.twoIn;
    for (const op of ['If', 'Scan', 'Range', 'Expand', 'Tile', 'ConstantOfShape', 'Resize', 'OfSomebody']) {
      const more = { op, inputs: ['x'], outputs: ['z'] };
      expect([op, await ofGraph({ ...graphs.twoIn, nodes: [...nodes, more] })]).toEqual([op, false]);
    }
  });

  it('is false for a file with functions of its own, and for what cannot be read', async () => {
    const functions = Buffer.from(
      [(25 << 3) | 2, 1, 0].flatMap((byte) => (byte > 0x7f ? [(byte & 0x7f) | 0x80, byte >> 7] : [byte])),
    );
    expect(await worksByShape(fileOf(Buffer.concat([encodeModel(graphs.twoIn), functions])))).toBe(false);
    expect(await worksByShape(join(folder, 'none.onnx'))).toBe(false);
    expect(await worksByShape(fileOf(Buffer.from('not a model')))).toBe(false);
    expect(await worksByShape(fileOf(new Uint8Array()))).toBe(false);
  });

  it.each(['digits_mlp', 'minilm'])('is true for the example model %s', async (model) => {
    expect(await worksByShape(join(ROOT, 'examples', 'models', model, '1', 'model.onnx'))).toBe(true);
  });
});
