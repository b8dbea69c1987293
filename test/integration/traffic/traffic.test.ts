import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CountingDispatcher } from '../../../producer/dispatch/counting-dispatcher.ts';
import { createQueueDispatcher } from '../../../producer/dispatch/queue-dispatcher.ts';
import { DEFAULT_HTTP_SETTINGS } from '../../../producer/http/http-settings.ts';
import { LocalStore } from '../../../producer/service/cache/local-store.ts';
import { createServices, type Services, type ServicesOptions } from '../../../producer/service/services.ts';
import { Call } from '../../../shared/infer/call.ts';
import { NO_PARAMETERS, type Parameters } from '../../../shared/infer/request.ts';
import { silentLogger } from '../../../shared/runtime/logger.ts';
import { trafficRuleOfJson } from '../../../shared/traffic/traffic-json.ts';
import { writeAddModel, writeAddVersion } from '../../support/add-model.ts';
import { writeModel } from '../../support/onnx/model.ts';
import { type RedisServer, startRedis, until } from '../../support/redis.ts';
import { modelDir, Opened, startRealEngine, startWorker } from '../cache/kit.ts';
import { f32, floatsOf, temporaryFolder } from '../engine/kit.ts';

const ALL_VERSIONS = 'version_policy { all { } }';

let folder: ReturnType<typeof temporaryFolder>;
let opened: Opened;

beforeEach(() => {
  folder = temporaryFolder();
  opened = new Opened();
});

afterEach(async () => {
  await opened.close();
  folder.remove();
});

function servicesOver(options: Pick<ServicesOptions, 'dispatcher' | 'trafficStore' | 'responseStore'>): Services {
  return createServices({ ...options, settings: DEFAULT_HTTP_SETTINGS, logger: silentLogger, version: '0.0.0-test' });
}

async function serve(responseStore?: LocalStore) {
  const engine = await startRealEngine(opened, folder.path, responseStore !== undefined);
  return { engine, services: servicesOver({ dispatcher: engine, responseStore }) };
}

const set = (services: Services, json: object) => services.trafficControl.set('m', trafficRuleOfJson(json));

async function ask(services: Services, parameters: Parameters = NO_PARAMETERS, version = '') {
  const nowMs = performance.now();
  const request = { id: '', model: 'm', version, inputs: [f32('x', [1, 1], [0])], outputs: [], parameters };
  const response = await services.infer(request, new Call('c', nowMs, nowMs + 15_000));
  return { version: response.version, value: floatsOf(response.outputs[0])[0] };
}

/** How many requests each version has answered, or failed. */
async function countOf(services: Services, requests: number) {
  const counts: Record<string, number> = {};
  for (let i = 0; i < requests; i += 1) {
    const version = await ask(services).then(
      (answer) => answer.version,
      () => 'failed',
    );
    counts[version] = (counts[version] ?? 0) + 1;
  }
  return counts;
}

/** A version that loads and fails whenever it is run with a row of one number. */
function writeFailingVersion(version: string): void {
  writeModel(join(modelDir(folder.path), version, 'model.onnx'), {
    inputs: [{ name: 'x', datatype: 'FP32', shape: [-1, -1] }],
    outputs: [{ name: 'y', datatype: 'FP32', shape: [-1, -1] }],
    initializers: [
      { name: 'columns', datatype: 'INT64', shape: [1], data: new Uint8Array(new BigInt64Array([5n]).buffer) },
    ],
    nodes: [
      { op: 'Gather', inputs: ['x', 'columns'], outputs: ['picked'], attributes: { axis: { int: 1 } } },
      { op: 'Add', inputs: ['x', 'picked'], outputs: ['y'] },
    ],
  });
}

describe('in one process', () => {
  it('spreads requests over the versions and answers each with its own numbers', async () => {
    writeAddModel(modelDir(folder.path), [1, 2], ALL_VERSIONS);
    const { services } = await serve();
    await set(services, { shares: { 1: 90, 2: 10 } });
    expect(await countOf(services, 100)).toEqual({ 1: 90, 2: 10 });
    for (let i = 0; i < 20; i += 1) {
      const { version, value } = await ask(services);
      expect(value).toBe(Number(version));
    }
    expect((await ask(services, NO_PARAMETERS, '2')).version).toBe('2');
    await services.trafficControl.clear('m');
    expect(await countOf(services, 5)).toEqual({ 2: 5 });
  });

  it('takes the rule of config.pbtxt', async () => {
    const rule = 'parameters { key: "traffic" value { string_value: "1=75%,2=25%" } }';
    writeAddModel(modelDir(folder.path), [1, 2], `${ALL_VERSIONS} ${rule}`);
    const { services } = await serve();
    expect(await countOf(services, 40)).toEqual({ 1: 30, 2: 10 });
    expect(services.trafficControl.show('m').source).toBe('config');
  });

  it('refuses to load a config whose rule is wrong', async () => {
    const rule = 'parameters { key: "traffic" value { string_value: "1=75%" } }';
    writeAddModel(modelDir(folder.path), [1, 2], `${ALL_VERSIONS} ${rule}`);
    const { engine } = await serve();
    expect(engine.catalog.list()[0]?.reason).toMatch(/parameter "traffic": the shares add up to 75, expected 100/);
  });

  it('falls back from a version that fails, and fails nothing from then on', async () => {
    writeAddModel(modelDir(folder.path), [1], ALL_VERSIONS);
    writeFailingVersion('2');
    const { services } = await serve();
    await set(services, { shares: { 1: 50, 2: 50 }, fallback: true });
    const { failed = 0 } = await countOf(services, 100);
    expect(failed).toBeGreaterThanOrEqual(20);
    expect(failed).toBeLessThan(50);
    expect(services.trafficControl.show('m').fallen).toMatchObject([{ version: '2' }]);
    expect(await countOf(services, 50)).toEqual({ 1: 50 });
  });

  it('compares the answers of a shadow', async () => {
    writeAddModel(modelDir(folder.path), [1, 2], ALL_VERSIONS);
    writeAddVersion(modelDir(folder.path), '3', 1);
    const { services } = await serve();
    const shadowOf = () => services.trafficControl.show('m').shadow;
    await set(services, { shares: { 1: 100 }, shadow: { version: '2' } });
    expect(await countOf(services, 10)).toEqual({ 1: 10 });
    await until('the copies have ended', () => shadowOf()?.different === 10);
    expect(shadowOf()).toMatchObject({ same: 0, errors: 0, skipped: 0, largest_difference: 0.5 });
    await set(services, { shares: { 1: 100 }, shadow: { version: '3' } });
    await countOf(services, 10);
    await until('the copies have ended', () => shadowOf()?.same === 10);
  });

  it('loses no request while a version with a share is loaded and unloaded', async () => {
    writeAddModel(modelDir(folder.path), [1, 2], ALL_VERSIONS);
    const { engine, services } = await serve();
    await set(services, { shares: { 1: 50, 2: 50 } });
    const without = JSON.stringify({
      max_batch_size: 8,
      platform: 'onnxruntime_onnx',
      input: [{ name: 'x', data_type: 'TYPE_FP32', dims: [-1] }],
      output: [{ name: 'y', data_type: 'TYPE_FP32', dims: [-1] }],
      version_policy: { specific: { versions: [1] } },
    });
    const state = { over: false };
    const changes = (async () => {
      for (let i = 0; i < 5; i += 1) {
        await engine.control.load('m', { config: without });
        await engine.control.load('m');
      }
    })().finally(() => (state.over = true));
    const counts: Record<string, number> = {};
    while (!state.over) {
      const answers = await Promise.all(Array.from({ length: 8 }, () => ask(services)));
      for (const { version, value } of answers) {
        expect(value).toBe(Number(version));
        counts[version] = (counts[version] ?? 0) + 1;
      }
    }
    await changes;
    expect(counts['2']).toBeGreaterThan(0);
    expect(counts['1']).toBeGreaterThan(counts['2']!);
  });

  it('keeps the answers of each version apart in the response cache', async () => {
    writeAddModel(modelDir(folder.path), [1, 2], `${ALL_VERSIONS} response_cache { enable: true }`);
    const { services } = await serve(new LocalStore(100_000));
    await set(services, { shares: { 1: 50, 2: 50 } });
    for (let i = 0; i < 20; i += 1) {
      const { version, value } = await ask(services);
      expect(value).toBe(Number(version));
    }
    const hits = [...services.stats()].map(({ version, cacheHit }) => [version, cacheHit.count]);
    expect(hits).toEqual([
      ['1', 9],
      ['2', 9],
    ]);
  });
});

describe('in a pool', () => {
  let redis: RedisServer;

  beforeEach(async () => {
    redis = await startRedis({ persistent: false });
  });

  afterEach(async () => {
    await opened.close();
    await redis.stop();
  });

  async function producer(): Promise<Services> {
    const queue = await createQueueDispatcher({ redisUrl: redis.url, logger: silentLogger });
    opened.add(() => queue.close(5000));
    const services = servicesOver({ dispatcher: new CountingDispatcher(queue), trafficStore: queue.traffic });
    await until('the producer knows the versions', () => {
      return services.catalog.list().filter(({ state }) => state === 'READY').length === 2;
    });
    return services;
  }

  const sharesOf = (services: Services) => services.trafficControl.show('m').versions.map(({ share }) => share);

  it('is one rule for all producers, soon after it was set', async () => {
    writeAddModel(modelDir(folder.path), [1, 2], ALL_VERSIONS);
    await startWorker(opened, redis, folder.path);
    const [one, other] = [await producer(), await producer()];
    await set(one, { shares: { 1: 75, 2: 25 } });
    expect(await countOf(one, 20)).toEqual({ 1: 15, 2: 5 });
    await until('the other has read it', () => sharesOf(other)[0] === 75);
    expect(await countOf(other, 20)).toEqual({ 1: 15, 2: 5 });
    const third = await producer();
    expect(sharesOf(third)).toEqual([75, 25]);
    await other.trafficControl.clear('m');
    expect(await countOf(other, 3)).toEqual({ 2: 3 });
    await until('the first has read it', () => one.trafficControl.show('m').source === 'policy');
    expect(await countOf(one, 3)).toEqual({ 2: 3 });
  });

  it('gives equal keys the same version through every producer', async () => {
    writeAddModel(modelDir(folder.path), [1, 2], ALL_VERSIONS);
    await startWorker(opened, redis, folder.path);
    const [one, other] = [await producer(), await producer()];
    await set(one, { shares: { 1: 50, 2: 50 }, sticky: 'user' });
    await until('the other has read it', () => sharesOf(other)[0] === 50);
    const versions = new Set<string>();
    for (let user = 0; user < 12; user += 1) {
      const { version } = await ask(one, { user });
      expect((await ask(other, { user })).version).toBe(version);
      versions.add(version);
    }
    expect(versions.size).toBe(2);
  });

  it('sends a version’s share to the worker that has it', async () => {
    const [old, both] = [join(folder.path, 'old'), join(folder.path, 'both')];
    writeAddModel(modelDir(old), [1], ALL_VERSIONS);
    writeAddModel(modelDir(both), [1, 2], ALL_VERSIONS);
    await startWorker(opened, redis, old);
    await startWorker(opened, redis, both);
    const services = await producer();
    await set(services, { shares: { 1: 50, 2: 50 } });
    expect(await countOf(services, 20)).toEqual({ 1: 10, 2: 10 });
  });

  it('falls back in every producer when one has seen enough', async () => {
    writeAddModel(modelDir(folder.path), [1], ALL_VERSIONS);
    writeFailingVersion('2');
    await startWorker(opened, redis, folder.path);
    const [one, other] = [await producer(), await producer()];
    await set(one, { shares: { 1: 50, 2: 50 }, fallback: true });
    expect((await countOf(one, 100)).failed).toBeLessThan(50);
    await until('the other has read it', () => other.trafficControl.show('m').fallen.length === 1);
    expect(await countOf(other, 20)).toEqual({ 1: 20 });
  });

  it('holds while Redis is away, and is written back to one that came back empty', async () => {
    writeAddModel(modelDir(folder.path), [1, 2], ALL_VERSIONS);
    await startWorker(opened, redis, folder.path);
    const services = await producer();
    await set(services, { shares: { 1: 100 } });
    await redis.kill();
    expect(sharesOf(services)).toEqual([100, 0]);
    await redis.start();
    await until('it is answered again', async () => (await countOf(services, 1))['1'] === 1);
    await until('the rule is there', async () => (await redis.client().exists('{millrace}.traffic')) === 1);
    expect(sharesOf(services)).toEqual([100, 0]);
  });
});
