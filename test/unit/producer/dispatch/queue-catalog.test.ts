import { create } from '@bufbuild/protobuf';
import { describe, expect, it } from 'vitest';
import { QueueCatalog } from '../../../../producer/dispatch/queue-catalog.ts';
import type { ModelDescription } from '../../../../shared/directory/model-description.ts';
import type { AnnouncedModel, WorkerRecord } from '../../../../shared/directory/worker-record.ts';
import { ModelConfigSchema } from '../../../../shared/proto/generated/model_config_pb.ts';

const catalogOf = (workers: WorkerRecord[], described: ModelDescription[]): QueueCatalog => {
  const catalog = new QueueCatalog(() => ({ names: [], read: () => Promise.reject(new Error('none')) }));
  catalog.update({ workers, descriptions: new Map(described.map((one) => [hashOf(one.name, one.version), one])) });
  return catalog;
};

const hashOf = (name: string, version: string): string => `${name}@${version}`;

function description(name: string, version: string): ModelDescription {
  const config = create(ModelConfigSchema, { name, backend: 'onnxruntime' });
  return { name, version, config, labels: new Map(), files: [] };
}

function ready(name: string, version: string): AnnouncedModel {
  return { name, version, state: 'READY', reason: '', description: hashOf(name, version) };
}

function worker(id: string, models: AnnouncedModel[], draining = false): WorkerRecord {
  return { id, host: 'h', pid: 1, draining, controlled: false, models };
}

const broken: AnnouncedModel = { name: 'm', version: '1', state: 'UNAVAILABLE', reason: 'no memory' };

describe('the catalog of the pool', () => {
  it('has a model ready when one worker has, whatever the others say', () => {
    const catalog = catalogOf([worker('a', [broken]), worker('b', [ready('m', '1')])], [description('m', '1')]);
    expect(catalog.list()).toEqual([{ name: 'm', version: '1', state: 'READY', reason: '' }]);
    expect(catalog.resolve('m', '')).toMatchObject({ name: 'm', version: '1' });
    expect([catalog.ready(), catalog.served('m')]).toEqual([true, true]);
  });

  it('is not ready while a model is ready nowhere, and says why', () => {
    const catalog = catalogOf([worker('a', [broken])], []);
    expect(catalog.ready()).toBe(false);
    expect(() => catalog.resolve('m', '')).toThrow(/'m' is not ready: no memory/);
  });

  it('lets a model whose workers are all gone still be called', () => {
    const catalog = catalogOf([worker('a', [ready('other', '1')])], [description('m', '1'), description('other', '1')]);
    expect(catalog.resolve('m', '').version).toBe('1');
    expect(catalog.served('m')).toBe(false);
    expect(catalog.list()[0]).toMatchObject({
      name: 'm',
      state: 'UNAVAILABLE',
      reason: expect.stringMatching(/no worker/) as string,
    });
    expect(catalog.ready()).toBe(true);
  });

  it('counts a worker that drains as gone', () => {
    const catalog = catalogOf([worker('a', [ready('m', '1')], true)], [description('m', '1')]);
    expect([catalog.ready(), catalog.hasWorkers(), catalog.served('m')]).toEqual([false, false, false]);
    expect(catalog.resolve('m', '').version).toBe('1');
  });

  it('lets a model be called that a living worker only lists and has never loaded, and others served', () => {
    const unknown: AnnouncedModel = { name: 'm', version: '1', state: 'UNKNOWN', reason: '' };
    for (const version of ['1', '']) {
      const catalog = catalogOf([worker('a', [{ ...unknown, version }])], [description('m', '1')]);
      expect(catalog.resolve('m', '').version).toBe('1');
      expect(catalog.list()).toMatchObject([{ name: 'm', version: '1', state: 'UNAVAILABLE' }]);
      expect(catalog.ready()).toBe(true);
    }
  });

  it('keeps refusing a model that was unloaded, failed to load, or is loaded when a request comes', () => {
    const unloaded: AnnouncedModel = { name: 'm', version: '1', state: 'UNAVAILABLE', reason: 'unloaded' };
    const wakeable: AnnouncedModel = { name: 'm', version: '1', state: 'UNKNOWN', reason: '', wakeable: true };
    const unknown: AnnouncedModel = { name: 'm', version: '1', state: 'UNKNOWN', reason: '' };
    for (const row of [unloaded, broken, wakeable]) {
      for (const rows of [[row], [row, unknown], [unknown, row]]) {
        const workers = rows.map((model, index) => worker(String(index), [model]));
        const catalog = catalogOf(workers, [description('m', '1')]);
        expect(() => catalog.resolve('m', '')).toThrow(/not ready|is unloaded|is not loaded/);
        expect(catalog.wakeable('m')).toBe(row === wakeable);
      }
    }
  });

  it('forgets a version that living workers of the model do not have any more', () => {
    const catalog = catalogOf([worker('a', [ready('m', '2')])], [description('m', '1'), description('m', '2')]);
    expect(catalog.list().map((state) => state.version)).toEqual(['2']);
    expect(() => catalog.resolve('m', '1')).toThrow(/version 1 is not found/);
  });

  it('takes the highest ready version by number, and that one alone while another is loading', () => {
    const loading: AnnouncedModel = { name: 'm', version: '11', state: 'LOADING', reason: '' };
    const versions = [ready('m', '9'), ready('m', '10'), loading];
    const catalog = catalogOf([worker('a', versions)], [description('m', '9'), description('m', '10')]);
    expect(catalog.resolve('m', '')).toMatchObject({ version: '10', versions: ['9', '10'] });
    expect(() => catalog.resolve('m', '11')).toThrow(/not ready/);
  });

  it('gives the same object as long as nothing about the model changes', () => {
    const catalog = catalogOf([worker('a', [ready('m', '1')])], [description('m', '1')]);
    const before = catalog.resolve('m', '');
    const descriptions = new Map([[hashOf('m', '1'), description('m', '1')]]);
    catalog.update({ workers: [worker('b', [ready('m', '1')]), worker('a', [ready('m', '1')])], descriptions });
    expect(catalog.resolve('m', '1')).toBe(before);
  });
});
