import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { describe, expect, it } from 'vitest';
import { addModelFile, writeAddModel, writeAddVersion } from '../../support/add-model.ts';
import { until } from '../../support/redis.ts';
import { f32, floatsFrom, send } from './kit.ts';
import { CONFIG, useRepository } from './lifecycle-kit.ts';
import { countedBackend } from './watched-backend.ts';

const { root, pathOf, start, startExplicit, engine, log, close, statesOf, reasonOf, ask, codeFor } = useRepository();

const temporaryModels = () => readdirSync(tmpdir()).filter((name) => name.startsWith('millrace-model-'));

describe('explicit control', () => {
  it('knows every folder and loads none until it is asked', async () => {
    writeAddModel(pathOf('m'), [1]);
    const { catalog, control } = await startExplicit();
    expect([statesOf('m'), catalog.ready(), await codeFor()]).toEqual([['UNKNOWN'], true, 'NOT_FOUND']);
    await control.load('m');
    expect([statesOf('m'), await ask()]).toEqual([['1 READY'], 1]);
    await control.unload('m');
    expect(await codeFor()).toBe('NOT_FOUND');
    await until('it is unloaded', () => statesOf('m').includes('1 UNAVAILABLE'));
    expect([reasonOf('m'), catalog.ready()]).toEqual(['unloaded', true]);
  });

  it('loads at start what it is told to', async () => {
    for (const name of ['a', 'b']) writeAddModel(pathOf(name), [1]);
    await startExplicit(['b']);
    expect([statesOf('a'), statesOf('b')]).toEqual([['UNKNOWN'], ['1 READY']]);
  });

  it('loads all with a star, and says what it was told to load and cannot find', async () => {
    for (const name of ['a', 'b']) writeAddModel(pathOf(name), [1]);
    await startExplicit(['*']);
    expect([statesOf('a'), statesOf('b')]).toEqual([['1 READY'], ['1 READY']]);
    await close();
    await startExplicit(['nope']);
    expect([statesOf('nope'), reasonOf('nope')]).toEqual([
      ['UNAVAILABLE'],
      expect.stringContaining('"nope"') as string,
    ]);
  });

  it('finds a folder that came after the start, and not one that is not there', async () => {
    const { control } = await startExplicit();
    writeAddModel(pathOf('late'), [3]);
    await control.load('late');
    expect(await ask('late')).toBe(3);
    await expect(control.load('nope')).rejects.toMatchObject({
      code: 'NOT_FOUND',
      message: expect.stringContaining("'nope'") as string,
    });
    await control.unload('nope');
  });

  it('refuses both in the other modes', async () => {
    writeAddModel(pathOf('m'), [1]);
    const { control } = await start({});
    for (const change of [control.load('m'), control.unload('m')]) {
      await expect(change).rejects.toMatchObject({
        code: 'UNAVAILABLE',
        message: expect.stringContaining('not allowed') as string,
      });
    }
    expect(await ask()).toBe(1);
  });

  it('does nothing when nothing has changed, and takes up what has', async () => {
    writeAddModel(pathOf('m'), [1]);
    const { catalog, control } = await startExplicit(['m']);
    const before = catalog.resolve('m', '');
    await control.load('m');
    expect(catalog.resolve('m', '')).toBe(before);
    writeAddVersion(pathOf('m'), '1', 7);
    await control.load('m');
    expect(await ask()).toBe(7);
  });

  it('keeps a version that has not changed when another one comes', async () => {
    writeAddModel(pathOf('m'), [1], 'version_policy { all { } }');
    const { control } = await startExplicit(['m']);
    const loads = () =>
      log()
        .filter(({ event }) => event === 'model ready')
        .map(({ fields }) => fields.version);
    writeAddVersion(pathOf('m'), '2', 2);
    await control.load('m');
    expect(loads()).toEqual(['1', '2']);
    expect([await ask('m', '1'), await ask('m', '2'), await ask()]).toEqual([1, 2, 2]);
    expect(engine().catalog.resolve('m', '1').versions).toEqual(['1', '2']);
  });

  it('drops a version whose folder is gone', async () => {
    writeAddModel(pathOf('m'), [1, 2]);
    const { control } = await startExplicit(['m']);
    rmSync(pathOf('m', '2'), { recursive: true });
    await control.load('m');
    expect([statesOf('m'), await ask(), await codeFor('m', '2')]).toEqual([['1 READY'], 1, 'NOT_FOUND']);
  });

  it('replaces a model fifty times under load without a failed request', async () => {
    writeAddModel(pathOf('m'), [1]);
    const { control } = await startExplicit(['m']);
    const answers = new Set<number>();
    const wrong: unknown[] = [];
    let asked = 0;
    let over = false;
    const client = async (base: number) => {
      while (!over) {
        asked += 1;
        try {
          const sent = send(engine(), 'm', [f32('x', [1, 3], [base, base + 1, base + 2])]);
          const [a = 0, b = 0, c = 0] = await floatsFrom(sent);
          // One version has made the whole answer.
          if (b - a !== 1 || c - b !== 1) wrong.push([a, b, c]);
          answers.add(a - base);
        } catch (error) {
          wrong.push(error);
        }
      }
    };
    const clients = [10, 100, 1000, 10_000].map(client);
    for (let round = 1; round <= 50; round += 1) {
      writeAddVersion(pathOf('m'), '1', round);
      await control.load('m');
    }
    over = true;
    await Promise.all(clients);
    expect(wrong).toEqual([]);
    expect(asked).toBeGreaterThan(100);
    expect(answers.size).toBeGreaterThan(10);
    expect(await ask()).toBe(50);
  });

  it('counts on over a reload', async () => {
    writeAddModel(pathOf('m'), [1]);
    const { control } = await startExplicit(['m']);
    await ask();
    writeAddVersion(pathOf('m'), '1', 2);
    await control.load('m');
    await ask();
    expect(engine().stats()[0]?.success.count).toBe(2);
  });

  it('answers what is in hand when a model is unloaded, and closes in the middle of that', async () => {
    writeAddModel(pathOf('m'), [1]);
    const { control } = await startExplicit(['m']);
    const sent = Array.from({ length: 100 }, (_, index) => send(engine(), 'm', [f32('x', [1, 1], [index])]));
    const unloaded = control.unload('m');
    expect(await codeFor()).toBe('NOT_FOUND');
    await unloaded;
    await close();
    expect(await Promise.all(sent.map(floatsFrom))).toEqual(sent.map((_, index) => [index + 1]));
  });
});

describe('a load that fails', () => {
  it('says why, twice in the same words (F13), and leaves a server ready that gives up on it', async () => {
    writeAddModel(pathOf('m'), [1]);
    writeFileSync(pathOf('m', '1', 'model.onnx'), 'garbage');
    const { catalog, control } = await startExplicit();
    const texts: string[] = [];
    for (let i = 0; i < 2; i += 1) {
      await control.load('m').catch((error: unknown) => texts.push(String(error)));
    }
    expect(texts[0]).toMatch(/load failed for model 'm': version 1 is at UNAVAILABLE state: .+;/);
    expect(texts[1]).toBe(texts[0]);
    expect(texts[0]).not.toContain(root());
    expect([statesOf('m'), catalog.ready(), await codeFor()]).toEqual([['1 UNAVAILABLE'], false, 'UNAVAILABLE']);
    await control.unload('m');
    expect(catalog.ready()).toBe(true);
  });

  it('keeps what served before, and says so wherever somebody asks (F12)', async () => {
    writeAddModel(pathOf('m'), [1]);
    const { catalog, control } = await startExplicit(['m']);
    writeFileSync(pathOf('m', '1', 'model.onnx'), 'garbage');
    await expect(control.load('m')).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
    expect([await ask(), statesOf('m'), catalog.ready()]).toEqual([1, ['1 READY'], true]);
    expect(reasonOf('m')).toMatch(/^the last load failed: version 1 /);
    writeAddVersion(pathOf('m'), '1', 5);
    await control.load('m');
    expect([await ask(), reasonOf('m')]).toEqual([5, '']);
  });

  it('takes all versions of it back', async () => {
    writeAddModel(pathOf('m'), [1], 'version_policy { all { } }');
    const { control } = await startExplicit(['m']);
    writeAddVersion(pathOf('m'), '2', 2);
    mkdirSync(pathOf('m', '3'));
    writeFileSync(pathOf('m', '3', 'model.onnx'), 'garbage');
    await expect(control.load('m')).rejects.toMatchObject({ message: expect.stringContaining('version 3') as string });
    expect([await ask(), await codeFor('m', '2'), await codeFor('m', '3')]).toEqual([1, 'UNAVAILABLE', 'UNAVAILABLE']);
  });

  it('loads two versions of a model at once, and begins no other after a failure', async () => {
    const { backend, most, loads } = countedBackend();
    writeAddModel(pathOf('m'), [1, 2, 3, 4, 5], 'version_policy { all { } }');
    const { control } = await start({ controlMode: 'explicit', backend });
    await control.load('m');
    expect([most(), loads()]).toEqual([2, 5]);
    expect(await Promise.all(['1', '3', '5'].map((version) => ask('m', version)))).toEqual([1, 3, 5]);
    await control.unload('m');
    for (const version of ['1', '2', '3', '4', '5']) writeFileSync(pathOf('m', version, 'model.onnx'), 'garbage');
    await expect(control.load('m')).rejects.toMatchObject({
      message: expect.stringContaining('version 1 is') as string,
    });
    expect(loads()).toBeLessThanOrEqual(5 + 3);
  });

  it('keeps the session of a version where the config has changed in other things, and frees it in the end', async () => {
    const { backend, loads, closes } = countedBackend();
    writeAddModel(pathOf('m'), [1], 'version_policy { all { } }');
    const { control } = await start({ controlMode: 'explicit', loadAtStart: ['m'], backend });
    const before = readFileSync(pathOf('m', 'config.pbtxt'), 'utf8');
    const change = async (config: string) => {
      writeFileSync(pathOf('m', 'config.pbtxt'), config);
      await control.load('m');
      return [await ask(), engine().catalog.resolve('m', '').config.instanceGroup[0]?.count];
    };
    expect(await change(before.replace('count: 1', 'count: 3'))).toEqual([1, 3]);
    expect(await change(before.replace('count: 1', 'count: 2'))).toEqual([1, 2]);
    expect([loads(), closes()]).toEqual([1, 0]);
    expect(await change(`${before} parameters { key: "execution_mode" value { string_value: "1" } }`)).toEqual([1, 1]);
    expect(loads()).toBe(2);
    await until('the one before is freed', () => closes() === 1);
    writeAddVersion(pathOf('m'), '1', 8);
    await control.load('m');
    expect([await ask(), loads()]).toEqual([8, 3]);
    await control.unload('m');
    await until('all are freed', () => closes() === 3);
  });

  it('explains a config that cannot be read, with the version that it was to be', async () => {
    writeAddModel(pathOf('m'), [1, 4]);
    writeFileSync(pathOf('m', 'config.pbtxt'), 'no_such_field: 1');
    const { control } = await startExplicit();
    await expect(control.load('m')).rejects.toMatchObject({
      message: expect.stringContaining('no_such_field') as string,
    });
    expect([statesOf('m'), reasonOf('m')]).toEqual([
      ['4 UNAVAILABLE'],
      expect.stringContaining('config.pbtxt:1:1') as string,
    ]);
  });
});

describe('an override', () => {
  it('of the config holds for one load', async () => {
    writeAddModel(pathOf('m'), [1, 2]);
    const { catalog, control } = await startExplicit();
    const config = JSON.stringify({ ...CONFIG, max_batch_size: 3, version_policy: { all: {} } });
    await control.load('m', { config });
    expect([statesOf('m'), catalog.resolve('m', '').maxBatchSize]).toEqual([['1 READY', '2 READY'], 3]);
    await control.load('m');
    expect([statesOf('m'), catalog.resolve('m', '').maxBatchSize]).toEqual([['2 READY'], 8]);
  });

  it('of the files makes the model of these alone, also where no repository has it', async () => {
    const { control } = await startExplicit();
    const before = temporaryModels();
    const files = new Map([['7/model.onnx', addModelFile(70)]]);
    await control.load('new', { config: JSON.stringify(CONFIG), files });
    expect([statesOf('new'), await ask('new')]).toEqual([['7 READY'], 70]);
    await control.unload('new');
    await until('its files are gone', () => temporaryModels().length === before.length);
  });

  it.each(['../1/model.onnx', '1/../../x.onnx', '..', '/etc/x', '', '1//model.onnx', '1\\model.onnx'])(
    'does not write to %j',
    async (path) => {
      writeAddModel(pathOf('m'), [1]);
      const { control } = await startExplicit(['m']);
      const files = new Map([[path, Buffer.from('x')]]);
      await expect(control.load('m', { config: JSON.stringify(CONFIG), files })).rejects.toMatchObject({
        code: 'INVALID_ARGUMENT',
      });
      expect([await ask(), reasonOf('m')]).toEqual([1, '']);
    },
  );

  it.each(['{bad', '[]', '{"no_such_field": 1}', '{"max_batch_size": "many"}'])(
    'that is %s is refused and changes nothing',
    async (config) => {
      writeAddModel(pathOf('m'), [1]);
      const { control } = await startExplicit(['m']);
      await expect(control.load('m', { config })).rejects.toMatchObject({
        code: 'INVALID_ARGUMENT',
        message: expect.not.stringContaining('…') as string,
      });
      expect([await ask(), reasonOf('m')]).toEqual([1, '']);
    },
  );
});

describe('many clients at once (F15)', () => {
  it('load, unload and infer at random, and the end is what was asked last', async () => {
    const seed = Number(process.env['MILLRACE_SEED'] ?? Date.now() % 1_000_000);
    const seconds = Number(process.env['MILLRACE_LIFECYCLE_SECONDS'] ?? 3);
    let state = seed;
    const random = (below: number) => {
      state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
      return state % below;
    };
    const names = ['a', 'b', 'c'];
    for (const name of names) writeAddModel(pathOf(name), [1]);
    const { control } = await startExplicit();
    const untilMs = performance.now() + seconds * 1000;
    const odd: string[] = [];
    const client = async () => {
      while (performance.now() < untilMs) {
        const name = names[random(names.length)] ?? '';
        const what = random(10);
        if (what === 0) await control.load(name).catch((error: unknown) => odd.push(`load ${String(error)}`));
        else if (what === 1) await control.unload(name).catch((error: unknown) => odd.push(`unload ${String(error)}`));
        else if (what === 2) writeAddVersion(pathOf(name), '1', 1);
        else {
          const code = await codeFor(name);
          if (!['fulfilled', 'NOT_FOUND', 'UNAVAILABLE'].includes(code)) odd.push(`infer ${code}`);
        }
        await new Promise((resolve) => setImmediate(resolve));
      }
    };
    await Promise.all(Array.from({ length: 20 }, client));
    expect(odd, `seed ${seed}`).toEqual([]);
    for (const name of names) {
      await control.load(name);
      expect([statesOf(name), await ask(name)], `seed ${seed}`).toEqual([['1 READY'], 1]);
      await control.unload(name);
    }
    await until('all are unloaded', () => names.every((name) => statesOf(name)[0] === '1 UNAVAILABLE'));
  });
});

describe('loads that bring files for a model that nobody has', () => {
  it('are all reachable, also when the one before them failed', async () => {
    const { control } = await startExplicit();
    const config = JSON.stringify(CONFIG);
    const load = (file: Buffer) => control.load('new', { config, files: new Map([['1/model.onnx', file]]) });
    const [bad, good] = await Promise.allSettled([load(Buffer.from('garbage')), load(addModelFile(9))]);
    expect([bad.status, good.status, await ask('new')]).toEqual(['rejected', 'fulfilled', 9]);
    await control.unload('new');
    await until('it is gone', () => statesOf('new')[0] !== '1 READY');
  });

  it('that go back to what serves take the failure back', async () => {
    writeAddModel(pathOf('m'), [1]);
    const { control } = await startExplicit(['m']);
    writeAddModel(pathOf('m'), [1], 'version_policy { all { } }');
    mkdirSync(pathOf('m', '2'));
    writeFileSync(pathOf('m', '2', 'model.onnx'), 'garbage');
    await expect(control.load('m')).rejects.toThrow('version 2');
    rmSync(pathOf('m', '2'), { recursive: true });
    await control.load('m');
    expect([statesOf('m'), reasonOf('m')]).toEqual([['1 READY'], '']);
  });
});
