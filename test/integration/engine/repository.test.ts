import { cpSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { InferError } from '../../../shared/errors.ts';
import type { ModelCatalog } from '../../../shared/infer/ports.ts';
import { makeFixtureModel, makeFixtureRepository } from '../../fixtures/make-models.ts';
import type { EngineUnderTest } from './kit.ts';
import { codeOf, f32, floatsFrom, send, startEngine, temporaryFolder } from './kit.ts';

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

const start = async (repositories = [folder.path]) => {
  running = await startEngine(repositories);
  return running.engine;
};

function errorOf(catalog: ModelCatalog, name: string, version = ''): InferError | undefined {
  try {
    catalog.resolve(name, version);
    return undefined;
  } catch (error) {
    return error instanceof InferError ? error : undefined;
  }
}

describe('repository', () => {
  it('loads what it can and keeps the reason of what it cannot', async () => {
    makeFixtureRepository(folder.path, ['id_f32']);
    makeFixtureModel(join(folder.path, 'bad_config'), 'id_f32', 'max_batch_size: [');
    mkdirSync(join(folder.path, 'bad_file', '1'), { recursive: true });
    writeFileSync(join(folder.path, 'bad_file', '1', 'model.onnx'), 'this is no model');
    mkdirSync(join(folder.path, 'empty'));
    const { catalog, ...engine } = await start();
    expect(catalog.list().map(({ name, state, version }) => [name, state, version])).toEqual([
      ['bad_config', 'UNAVAILABLE', '1'],
      ['bad_file', 'UNAVAILABLE', '1'],
      ['empty', 'UNAVAILABLE', undefined],
      ['id_f32', 'READY', '1'],
    ]);
    const reasons = Object.fromEntries(catalog.list().map(({ name, reason }) => [name, reason]));
    expect(reasons.bad_config).toMatch(/config\.pbtxt:1:/);
    expect(reasons.empty).toContain('no version folder');
    expect(reasons.id_f32).toBe('');
    for (const reason of Object.values(reasons)) expect(reason).not.toContain(folder.path);
    expect(catalog.ready()).toBe(false);
    expect(errorOf(catalog, 'bad_file')).toMatchObject({ code: 'UNAVAILABLE' });
    expect(running!.engine.ready()).toEqual({ ok: true });
    expect(engine).toBeDefined();
    expect(await floatsFrom(send(running!.engine, 'id_f32', [f32('x', [1, 1], [5])]))).toEqual([5]);
  });

  it('names a model that it does not know', async () => {
    makeFixtureRepository(folder.path, ['id_f32']);
    const engine = await start();
    const text = "Request for unknown model: 'nope' is not found";
    expect(errorOf(engine.catalog, 'nope')).toMatchObject({ code: 'NOT_FOUND', message: text });
    await expect(send(engine, 'nope', []).result).rejects.toMatchObject({ code: 'NOT_FOUND', message: text });
    expect(errorOf(engine.catalog, 'id_f32', '7')).toMatchObject({ code: 'NOT_FOUND' });
    expect(engine.pending('nope', '')).toBe(0);
  });

  it('knows version folders by their number and warns once of each of the others (F09)', async () => {
    const model = join(folder.path, 'id_f32');
    makeFixtureModel(model, 'id_f32', 'version_policy { all { } }');
    const odd = ['01', '001', '0', '-1', '1.0', 'v2', 'model', ' 3', '٣', '18446744073709551616', '5'];
    for (const name of odd) mkdirSync(join(model, name));
    for (const name of ['9', '10']) cpSync(join(model, '1'), join(model, name), { recursive: true });
    symlinkSync('1', join(model, '4'));
    writeFileSync(join(model, '6'), '');
    const engine = await start();
    expect(engine.catalog.list().map(({ version }) => version)).toEqual(['1', '4', '9', '10']);
    expect(engine.catalog.resolve('id_f32', '').version).toBe('10');
    expect(engine.catalog.resolve('id_f32', '9').versions).toEqual(['1', '4', '9', '10']);
    const warned = running!.log
      .filter(({ event }) => event.includes('version folder'))
      .map(({ fields }) => fields.entry);
    expect(warned.toSorted()).toEqual([...odd, '6'].toSorted());
  });

  it('loads only the versions that the policy chooses', async () => {
    const model = join(folder.path, 'id_f32');
    makeFixtureModel(model, 'id_f32', '');
    cpSync(join(model, '1'), join(model, '2'), { recursive: true });
    const engine = await start();
    expect(engine.catalog.list()).toMatchObject([{ name: 'id_f32', version: '2', state: 'READY' }]);
    expect(errorOf(engine.catalog, 'id_f32', '1')).toMatchObject({ code: 'NOT_FOUND' });
  });

  it('loads all versions of a model or none', async () => {
    const model = join(folder.path, 'id_f32');
    makeFixtureModel(model, 'id_f32', 'version_policy { all { } }');
    mkdirSync(join(model, '2'));
    writeFileSync(join(model, '2', 'model.onnx'), 'no model');
    const engine = await start();
    expect(engine.catalog.list().map(({ version, state }) => [version, state])).toEqual([
      ['1', 'UNAVAILABLE'],
      ['2', 'UNAVAILABLE'],
    ]);
    expect(errorOf(engine.catalog, 'id_f32', '1')).toMatchObject({ code: 'UNAVAILABLE' });
  });

  it('completes a model without a config from its file', async () => {
    const model = join(folder.path, 'id_f32');
    makeFixtureModel(model, 'id_f32');
    rmSync(join(model, 'config.pbtxt'));
    const engine = await start();
    expect(engine.catalog.resolve('id_f32', '')).toMatchObject({ maxBatchSize: 4, inputs: [{ name: 'x' }] });
  });

  it('reads several repositories, and refuses a model that is in two of them', async () => {
    const [one, two] = [join(folder.path, 'one'), join(folder.path, 'two')];
    makeFixtureRepository(one, ['id_f32', 'rowsum']);
    makeFixtureRepository(two, ['id_f32', 'logx']);
    const engine = await start([one, two]);
    const states = engine.catalog.list();
    expect(states.map(({ name, state }) => [name, state])).toEqual([
      ['id_f32', 'UNAVAILABLE'],
      ['logx', 'READY'],
      ['rowsum', 'READY'],
    ]);
    expect(states[0]!.reason).toContain('two or more repositories');
  });

  it('fails with the path as it was given when a repository cannot be read', async () => {
    const missing = join(folder.path, 'nowhere');
    await expect(start([missing])).rejects.toMatchObject({
      code: 'NOT_FOUND',
      message: expect.stringContaining(`'${missing}'`) as string,
    });
  });

  it('reads label files, and refuses one that is missing or outside of the folder', async () => {
    const io = (label: string) =>
      `max_batch_size: 8
      input { name: "x" data_type: TYPE_FP32 dims: -1 }
      output { name: "y" data_type: TYPE_FP32 dims: -1 label_filename: "${label}" }`;
    for (const [name, label] of [['good', 'labels.txt'] as const, ['bad', 'none.txt'] as const]) {
      makeFixtureModel(join(folder.path, name), 'id_f32', io(label));
    }
    writeFileSync(join(folder.path, 'good', 'labels.txt'), 'cat\r\n\ndog\n');
    const engine = await start();
    expect(engine.catalog.resolve('good', '').outputs[0]!.labels).toEqual(['cat', '', 'dog']);
    expect(errorOf(engine.catalog, 'bad')?.message).toContain('none.txt');
  });

  it('offers the small text files of the folder, and none that a link leads out to', async () => {
    const model = join(folder.path, 'id_f32');
    makeFixtureModel(model, 'id_f32');
    writeFileSync(join(folder.path, 'outside.json'), '{"secret":true}');
    symlinkSync(join(folder.path, 'outside.json'), join(model, 'link.json'));
    writeFileSync(join(model, 'config.json'), '{"a":1}');
    writeFileSync(join(model, 'weights.bin'), 'x');
    mkdirSync(join(model, '1_Pooling'));
    writeFileSync(join(model, '1_Pooling', 'config.json'), '{"b":2}');
    const { files } = (await start()).catalog.resolve('id_f32', '');
    expect(files.names).toEqual(['1_Pooling/config.json', 'config.json']);
    expect((await files.read('config.json')).toString()).toBe('{"a":1}');
    await expect(files.read('../outside.json')).rejects.toMatchObject({ code: 'NOT_FOUND' });
    await expect(files.read('link.json')).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });

  it('answers what it has in hand when it closes, and takes nothing more', async () => {
    makeFixtureRepository(folder.path, ['id_f32']);
    const engine = await start();
    const waiting = send(engine, 'id_f32', [f32('x', [1, 1], [1])]);
    const closed = engine.close(2000);
    expect(engine.ready()).toMatchObject({ ok: false });
    const late = send(engine, 'id_f32', [f32('x', [1, 1], [2])]);
    expect(await floatsFrom(waiting)).toEqual([1]);
    expect(await codeOf(late)).toBe('UNAVAILABLE');
    await closed;
    expect(engine.catalog.list()).toMatchObject([{ state: 'UNAVAILABLE', reason: 'unloaded' }]);
  });
});
