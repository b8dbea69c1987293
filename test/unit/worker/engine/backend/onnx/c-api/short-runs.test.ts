import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { createCApiBackend } from '../../../../../../../worker/engine/backend/onnx/c-api/c-api-backend.ts';
import { ShortRuns } from '../../../../../../../worker/engine/backend/onnx/c-api/short-runs.ts';
import { makeFixtureRepository } from '../../../../../../fixtures/make-models.ts';
import { loadOptions } from '../../../../../../support/load-options.ts';
import { f32, f32Of, i64 } from '../../../../../../support/onnx/data.ts';

describe('ShortRuns', () => {
  const verdicts = (runs: ShortRuns, bytes: number) => [false, true].map((alone) => runs.allows(bytes, alone));

  it('sends the first run of a size to a thread, which shows what it takes', () => {
    const runs = new ShortRuns();
    expect(verdicts(runs, 64)).toEqual([false, false]);
    runs.note(64, 0.1, false);
    expect(verdicts(runs, 64)).toEqual([true, true]);
    expect(verdicts(runs, 128)).toEqual([false, false]);
  });

  it('does a longer one on the event loop only where nothing else is in hand', () => {
    const runs = new ShortRuns();
    runs.note(4096, 1.5, false);
    expect(verdicts(runs, 4096)).toEqual([false, true]);
    runs.note(4096, 0.05, true); // without the way to a thread and back
    expect(verdicts(runs, 4096)).toEqual([true, true]);
  });

  it('sends them to threads for a while after one that was long', () => {
    const runs = new ShortRuns();
    runs.note(4096, 0.1, false);
    runs.note(4096, 5, true);
    expect(verdicts(runs, 4096)).toEqual([false, false]);
    let count = 0;
    for (; !runs.allows(4096, true); count += 1) runs.note(4096, 0.1, false);
    expect(count).toBeGreaterThan(10);
    expect(count).toBeLessThan(30);
  });

  it('never does those of a size again of which one took far too long', () => {
    const runs = new ShortRuns();
    runs.note(4096, 0.1, false);
    runs.note(4096, 100, true);
    for (let run = 0; run < 1000; run += 1) runs.note(4096, 0.1, false);
    expect(verdicts(runs, 4096)).toEqual([false, false]);
  });

  it('holds for no bytes, and for very many', () => {
    const runs = new ShortRuns();
    for (const bytes of [0, 2 ** 40]) {
      runs.note(bytes, 0.1, false);
      expect(verdicts(runs, bytes)).toEqual([true, true]);
    }
  });
});

describe('an instance', () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'millrace-short-'));
    makeFixtureRepository(folder, ['slow', 'rowsum']);
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  const instanceOf = async (model: string) => {
    const loaded = await createCApiBackend().load(loadOptions(join(folder, model, '1', 'model.onnx')));
    loaded.startServing?.();
    return loaded.createInstance();
  };

  it('does short runs of a model without loops on the event loop, from the second on', async () => {
    const note = vi.spyOn(ShortRuns.prototype, 'note');
    vi.spyOn(ShortRuns.prototype, 'allows').mockImplementation(() => note.mock.calls.length > 0);
    const instance = await instanceOf('rowsum');
    for (let run = 0; run < 3; run += 1) {
      const x = { name: 'x', datatype: 'FP32', shape: [1, 2], data: f32(run, 1) } as const;
      expect(f32Of((await instance.run([x], ['y'], true).result)[0]!.data)).toEqual([run + 1]);
    }
    expect(note.mock.calls.map(([bytes, , here]) => [bytes, here])).toEqual([
      [8, false],
      [8, true],
      [8, true],
    ]);
    await instance.close();
    vi.restoreAllMocks();
  });

  it('leaves a model with a loop to a thread, however short its runs are', async () => {
    const allows = vi.spyOn(ShortRuns.prototype, 'allows');
    const instance = await instanceOf('slow');
    for (let run = 0; run < 3; run += 1) {
      await instance.run([{ name: 'x', datatype: 'INT64', shape: [1, 1], data: i64(0) }], ['y'], true).result;
    }
    expect(allows).not.toHaveBeenCalled();
    await instance.close();
    vi.restoreAllMocks();
  });
});
