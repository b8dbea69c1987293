import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Tensor } from '../../../../../../../shared/tensor/tensor.ts';
import { loadOptions } from '../../../../../../support/load-options.ts';
import { createCApiBackend } from '../../../../../../../worker/engine/backend/onnx/c-api/c-api-backend.ts';
import { makeFixtureRepository } from '../../../../../../fixtures/make-models.ts';
import { f32, f32Of, i64, i64Of } from '../../../../../../support/onnx/data.ts';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void; // what --expose-gc adds to every new context

describe('memory that native code uses', () => {
  let folder: string;

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'millrace-memory-'));
    makeFixtureRepository(folder, ['slow', 'rowsum']);
  });

  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  const instanceOf = async (model: string) => {
    const loaded = await createCApiBackend().load(loadOptions(join(folder, model, '1', 'model.onnx')));
    return loaded.createInstance();
  };

  test('is kept while a run lasts, when the caller forgets everything but the run', async () => {
    const instance = await instanceOf('slow');
    const { result } = instance.run([{ name: 'x', datatype: 'INT64', shape: [2, 1], data: i64(2, 1) }], ['y']);
    for (let i = 0; i < 5; i++) {
      collectGarbage();
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(i64Of((await result)[0]!.data)).toEqual([2n, 1n]);
    await instance.close();
  });

  test('is kept between runs, and the library with it', async () => {
    const instance = await instanceOf('rowsum');
    for (let i = 0; i < 60; i++) {
      const tensor: Tensor = { name: 'x', datatype: 'FP32', shape: [2, 2], data: f32(i, 1, i, 2) };
      const run = instance.run([tensor], ['y']);
      collectGarbage();
      expect(f32Of((await run.result)[0]!.data)).toEqual([i + 1, i + 2]);
    }
    await instance.close();
  });
});
