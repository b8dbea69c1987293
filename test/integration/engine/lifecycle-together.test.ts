import { mkdirSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { addModelFile, writeAddModel } from '../../support/add-model.ts';
import { until } from '../../support/redis.ts';
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
