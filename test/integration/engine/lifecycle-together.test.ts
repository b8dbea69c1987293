import { mkdirSync, statSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { Parameters } from '../../../shared/infer/request.ts';
import { writeSumModel } from '../../fixtures/sequence-models.ts';
import { addModelFile, writeAddModel, writeAddVersion } from '../../support/add-model.ts';
import { until } from '../../support/redis.ts';
import { f32, floatsFrom, send } from './kit.ts';
import { CONFIG, useRepository } from './lifecycle-kit.ts';

const { pathOf, start, startExplicit, engine, log, statesOf, reasonOf, ask, codeFor } = useRepository();

describe('loading on demand', () => {
  const budgetOf = (models: number) => models * addModelFile(1).length + 10;
  const startLazy = (budgetBytes = Infinity, loadAtStart: string[] = []) =>
    start({ controlMode: 'explicit', onDemand: true, budgetBytes, loadAtStart });
  /** As the facades do: wake, then look up and run. */
  const askFor = async (name: string) => {
    await engine().wake(name);
    return ask(name);
  };

  it('loads a model for the first request, and tells the index that it would', async () => {
    writeAddModel(pathOf('m'), [1]);
    const { catalog } = await startLazy();
    expect(catalog.list()).toEqual([{ name: 'm', state: 'UNKNOWN', reason: '', wakeable: true }]);
    expect(await Promise.all(Array.from({ length: 20 }, () => askFor('m')))).toEqual(Array(20).fill(1));
    expect(log().filter(({ event }) => event === 'model ready')).toHaveLength(1);
    expect(engine().wake('m')).toBeUndefined();
    expect(engine().wake('nope')).toBeUndefined();
  });

  it('makes room by the model that nobody has asked for longest', async () => {
    for (const name of ['a', 'b', 'c']) writeAddModel(pathOf(name), [1]);
    await startLazy(budgetOf(2));
    for (const name of ['a', 'b', 'a', 'c']) await askFor(name);
    expect([statesOf('a'), statesOf('b'), statesOf('c')]).toEqual([['1 READY'], ['1 UNAVAILABLE'], ['1 READY']]);
    expect(await askFor('b')).toBe(1);
    expect(statesOf('a')).toEqual(['1 UNAVAILABLE']);
  });

  it('keeps what was loaded by name, and says so when nothing can leave', async () => {
    for (const name of ['a', 'b']) writeAddModel(pathOf(name), [1]);
    await startLazy(budgetOf(1), ['a']);
    await engine().wake('b');
    expect(reasonOf('b')).toContain('the other models were loaded by name and stay');
    expect([await ask('a'), await codeFor('b')]).toEqual([1, 'UNAVAILABLE']);
  });

  it('does not try a broken model again for each request, and says why each time, until its files change', async () => {
    writeAddModel(pathOf('m'), [1]);
    writeFileSync(pathOf('m', '1', 'model.onnx'), 'garbage');
    const { catalog } = await startLazy();
    const attempts = () => log().filter(({ event }) => event === 'model failed to load').length;
    for (let i = 0; i < 20; i += 1) {
      await engine().wake('m');
      expect(await codeFor()).toBe('UNAVAILABLE');
    }
    expect(attempts()).toBeLessThan(4); // the waits between them grow
    expect(reasonOf('m')).toContain('the model file could not be loaded');
    expect(catalog.list()).toMatchObject([{ state: 'UNAVAILABLE' }]);
    writeAddVersion(pathOf('m'), '1', 7);
    await until('the change is noticed', async () => {
      await engine().wake('m');
      return (await codeFor()) === 'fulfilled';
    });
    expect(await ask('m')).toBe(7);
  });

  it('does not make room by a model with live sequences, before they end or are silent for too long', async () => {
    const batching = 'max_sequence_idle_microseconds: 700000';
    writeSumModel(pathOf('sum'), { batching });
    writeAddModel(pathOf('b'), [1]);
    await startLazy(Math.max(addModelFile(1).length, statSync(pathOf('sum', '1', 'model.onnx')).size) + 10);
    const step = (flags: Parameters) =>
      floatsFrom(send(engine(), 'sum', [f32('x', [1, 1], [1])], { parameters: { sequence_id: 1, ...flags } }));
    await engine().wake('sum');
    expect(await step({ sequence_start: true })).toEqual([1]);
    const loaded = engine().wake('b');
    for (let y = 2; y < 6; y += 1) expect(await step({})).toEqual([y]);
    expect(statesOf('sum')).toEqual(['1 READY']);
    await loaded; // the sequence is silent now, and over in the end
    expect([await ask('b'), statesOf('sum')]).toEqual([1, ['1 UNAVAILABLE']]);
    await engine().wake('sum');
    expect(await step({ sequence_start: true })).toEqual([1]);
    const again = engine().wake('b');
    expect(await step({ sequence_end: true })).toEqual([2]);
    await again;
    expect(await ask('b')).toBe(1);
  });

  it('does not wake what was unloaded on purpose', async () => {
    writeAddModel(pathOf('m'), [1]);
    const { control } = await startLazy();
    await askFor('m');
    await control.unload('m');
    expect([engine().wake('m'), await codeFor()]).toEqual([undefined, 'NOT_FOUND']);
  });

  it('serves more models than fit, with no failed request while they take turns', async () => {
    const names = Array.from({ length: 8 }, (_, index) => `m${index}`);
    for (const name of names) writeAddModel(pathOf(name), [1]);
    await startLazy(budgetOf(3));
    const clients = names.map(async (name) => {
      for (let i = 0; i < 10; i += 1) {
        let code = 'NOT_FOUND';
        // Between waking and asking it may have left again, for another.
        for (let tries = 0; code !== 'fulfilled' && tries < 50; tries += 1) {
          await engine().wake(name);
          code = await codeFor(name);
        }
        expect(code).toBe('fulfilled');
      }
    });
    await Promise.all(clients);
  });
});

describe('many requests for a cold model', () => {
  it('load it once, however many they are', async () => {
    writeAddModel(pathOf('m'), [1]);
    const { wake } = { wake: (await start({ controlMode: 'explicit', onDemand: true })).wake.bind(engine()) };
    const asked = Array.from({ length: 1000 }, async () => {
      await wake('m');
      return ask();
    });
    expect(new Set(await Promise.all(asked))).toEqual(new Set([1]));
    expect(log().filter(({ event }) => event === 'model ready')).toHaveLength(1);
  });

  it('do not take more than there is room for, when they come at once', async () => {
    const names = ['a', 'b', 'c'];
    for (const name of names) writeAddModel(pathOf(name), [1]);
    const budgetBytes = Math.round(1.5 * addModelFile(1).length);
    const engine = await start({ controlMode: 'explicit', onDemand: true, budgetBytes });
    await Promise.all(names.map(async (name) => engine.wake(name)));
    expect(names.filter((name) => statesOf(name)[0] === '1 READY')).toHaveLength(1);
  });

  it('do not wake it again after it was unloaded on purpose', async () => {
    writeAddModel(pathOf('m'), [1]);
    const engine = await start({ controlMode: 'explicit', onDemand: true });
    const first = engine.wake('m');
    const unloaded = engine.control.unload('m');
    const second = engine.wake('m');
    await Promise.all([first, unloaded, second]);
    await until('it is unloaded', () => statesOf('m')[0] === '1 UNAVAILABLE');
    expect(await codeFor()).toBe('NOT_FOUND');
  });
});

describe('ensembles in the life cycle', () => {
  /** An ensemble that sends x through its steps, one after the other. */
  const chainConfig = (name: string, steps: readonly string[]) => {
    const tensors = ['x', ...steps.slice(1).map((_, index) => `t${index}`), 'y'];
    const text = steps.map((step, index) => {
      const [from = '', to = ''] = tensors.slice(index, index + 2);
      return `step { model_name: "${step}" model_version: -1 input_map { key: "x" value: "${from}" } output_map { key: "y" value: "${to}" } }`;
    });
    const ends =
      'input { name: "x" data_type: TYPE_FP32 dims: [ -1 ] } output { name: "y" data_type: TYPE_FP32 dims: [ -1 ] }';
    return `name: "${name}" platform: "ensemble" max_batch_size: 8 ${ends} ensemble_scheduling { ${text.join(' ')} }`;
  };
  const writeChain = (name: string, steps: readonly string[]) => {
    mkdirSync(pathOf(name, '1'), { recursive: true });
    writeFileSync(pathOf(name, 'config.pbtxt'), chainConfig(name, steps));
  };
  const chainJson = (steps: readonly string[]) =>
    JSON.stringify({
      platform: 'ensemble',
      max_batch_size: 8,
      input: CONFIG.input,
      output: CONFIG.output,
      ensemble_scheduling: {
        step: steps.map((step, index) => ({
          model_name: step,
          model_version: -1,
          input_map: { x: index === 0 ? 'x' : `t${index - 1}` },
          output_map: { y: index === steps.length - 1 ? 'y' : `t${index}` },
        })),
      },
    });

  it('come back one inside the other when the model that both need does', async () => {
    writeAddModel(pathOf('m'), [1]);
    writeChain('inner', ['m']);
    writeChain('outer', ['m', 'inner']);
    const { control } = await startExplicit(['*']);
    expect(await ask('outer')).toBe(2);
    await control.unload('m');
    await until('both are down', () => ['inner', 'outer'].every((name) => statesOf(name)[0] === '1 UNAVAILABLE'));
    await control.load('inner');
    await until('both are back', () => ['inner', 'outer'].every((name) => statesOf(name)[0] === '1 READY'));
    expect([await ask('inner'), await ask('outer')]).toEqual([1, 2]);
    await control.unload('inner');
  });

  it('keep to the members that serve when a reload with others fails', async () => {
    for (const name of ['a', 'b']) writeAddModel(pathOf(name), [1]);
    writeChain('ens', ['a', 'b']);
    const { control } = await startExplicit(['*']);
    writeChain('ens', ['a', 'nope']);
    await expect(control.load('ens')).rejects.toMatchObject({ code: 'NOT_FOUND' });
    expect(await ask('ens')).toBe(2);
    await control.unload('b');
    expect(await codeFor('ens')).toBe('UNAVAILABLE');
  });

  it('cannot contain each other by way of an override', async () => {
    writeAddModel(pathOf('m'), [1]);
    for (const name of ['p', 'q']) writeChain(name, ['m']);
    const { control } = await startExplicit(['*']);
    await control.load('p', { config: chainJson(['q']) });
    await expect(control.load('q', { config: chainJson(['p']) })).rejects.toMatchObject({
      message: expect.stringContaining('contain each other') as string,
    });
    expect([await ask('p'), await ask('q')]).toEqual([1, 1]);
  });

  it('that fail on demand let their members go', async () => {
    for (const name of ['a', 'b', 'c']) writeAddModel(pathOf(name), [1]);
    writeChain('ens', ['a', 'b']);
    const budgetBytes = addModelFile(1).length + 10;
    const { engine } = await start({ controlMode: 'explicit', onDemand: true, budgetBytes }).then((engine) => ({
      engine,
    }));
    await engine.wake('ens');
    expect(await codeFor('ens')).toBe('UNAVAILABLE');
    await engine.wake('c');
    expect(await ask('c')).toBe(1);
  });
});
