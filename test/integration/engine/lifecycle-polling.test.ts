import { appendFileSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { addModelFile, writeAddModel, writeAddVersion } from '../../support/add-model.ts';
import { until } from '../../support/redis.ts';
import { useRepository } from './lifecycle-kit.ts';

const { pathOf, start, log, statesOf, reasonOf, ask, codeFor } = useRepository();

describe('polling', () => {
  const startPolling = () => start({ controlMode: 'poll', pollMs: 40 });

  it('follows models that come, change and go', async () => {
    writeAddModel(pathOf('m'), [1]);
    await startPolling();
    writeAddModel(pathOf('n'), [4]);
    await until('the new one serves', () => statesOf('n').includes('4 READY'));
    writeAddVersion(pathOf('m'), '2', 2);
    await until('the new version serves', () => statesOf('m').includes('2 READY'));
    expect([await ask('m'), await ask('n')]).toEqual([2, 4]);
    rmSync(pathOf('n'), { recursive: true });
    await until('it is forgotten', () => statesOf('n').length === 0);
    expect(await codeFor('n')).toBe('NOT_FOUND');
  });

  it('does not load what is still being copied (F10)', async () => {
    writeAddModel(pathOf('m'), [1]);
    await startPolling();
    const file = addModelFile(2);
    mkdirSync(pathOf('m', '2'));
    for (let at = 0; at < file.length; at += 12) {
      appendFileSync(pathOf('m', '2', 'model.onnx'), file.subarray(at, at + 12));
      await new Promise((resolve) => setTimeout(resolve, 15));
      expect(await ask()).toBe(1);
    }
    await until('the whole file serves', () => statesOf('m').includes('2 READY'));
    expect(log().filter(({ level }) => level === 'error')).toEqual([]);
  });

  it('keeps what serves when a file is replaced by garbage, and takes up the repair (F12)', async () => {
    writeAddModel(pathOf('m'), [1]);
    await startPolling();
    writeFileSync(pathOf('m', '1', 'model.onnx'), 'garbage');
    writeAddModel(pathOf('other'), [9]);
    await until('the error shows', () => reasonOf('m') !== '');
    await until('the other one loads', () => statesOf('other').includes('9 READY'));
    expect(await ask()).toBe(1);
    writeAddVersion(pathOf('next'), '1', 6);
    renameSync(pathOf('next', '1', 'model.onnx'), pathOf('m', '1', 'model.onnx'));
    await until('the repair serves', () => reasonOf('m') === '');
    expect(await ask()).toBe(6);
  });

  it('is not moved by folders that are no versions (F09)', async () => {
    writeAddModel(pathOf('m'), [1]);
    const { catalog } = await startPolling();
    const before = catalog.resolve('m', '');
    for (const junk of ['v2', '01', 'notes']) mkdirSync(pathOf('m', junk));
    writeAddModel(pathOf('probe'), [1]);
    await until('it has looked again', () => statesOf('probe').includes('1 READY'));
    expect(catalog.resolve('m', '')).toBe(before);
  });
});
