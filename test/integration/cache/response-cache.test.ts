import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Services } from '../../../producer/service/services.ts';
import { LocalStore } from '../../../producer/service/cache/local-store.ts';
import { writeAddModel, writeAddVersion } from '../../support/add-model.ts';
import { type RedisServer, startRedis, until } from '../../support/redis.ts';
import { io, step } from '../../unit/shared/model/ensembles.ts';
import { temporaryFolder } from '../engine/kit.ts';
import { ask, countsOf, modelDir, Opened, openRedisStore, startProducer, startServe, startWorker } from './kit.ts';

const CACHED = 'response_cache { enable: true }';

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

const serve = () => startServe(opened, folder.path, new LocalStore(1_000_000));

/** The different answers that came while a change was under way. */
async function askWhile(services: Services, change: Promise<void>): Promise<ReadonlySet<number | undefined>> {
  const state = { over: false };
  const end = change.finally(() => (state.over = true));
  const seen = new Set<number | undefined>();
  while (!state.over) {
    seen.add(await ask(services, 0));
    await new Promise((resolve) => setImmediate(resolve)); // a hit alone gives nobody else a turn
  }
  await end;
  return seen;
}

describe('in one process', () => {
  it('answers from the cache, and runs models without response_cache each time', async () => {
    writeAddModel(modelDir(folder.path), [1], CACHED);
    writeAddModel(modelDir(folder.path, 'plain'), [1]);
    const { services } = await serve();
    expect([await ask(services, 1), await ask(services, 1), await ask(services, 2)]).toEqual([2, 2, 3]);
    expect(countsOf(services)).toEqual({ hits: 1, misses: 2, runs: 2 });
    expect([await ask(services, 1, 'plain'), await ask(services, 1, 'plain')]).toEqual([2, 2]);
    expect(countsOf(services, 'plain')).toEqual({ hits: 0, misses: 0, runs: 2 });
  });

  it('never answers with what the same version said before its file was replaced', async () => {
    writeAddModel(modelDir(folder.path), [1], CACHED);
    const { engine, services } = await serve();
    expect(await ask(services, 1)).toBe(2);
    writeAddVersion(modelDir(folder.path), '1', 10);
    await engine.control.load('m');
    expect([await ask(services, 1), await ask(services, 1)]).toEqual([11, 11]);
    writeAddVersion(modelDir(folder.path), '1', 1);
    await engine.control.load('m');
    expect(await ask(services, 1)).toBe(2);
    expect(countsOf(services)).toEqual({ hits: 2, misses: 2, runs: 2 });
  });

  it('gives each load its own answers while a model is replaced under load', async () => {
    writeAddModel(modelDir(folder.path), [1], CACHED);
    const { engine, services } = await serve();
    for (let amount = 2; amount < 12; amount += 1) {
      writeAddVersion(modelDir(folder.path), '1', amount);
      // Until the load is over either answer is right, afterwards only the new one.
      for (const answer of await askWhile(services, engine.control.load('m'))) {
        expect([amount - 1, amount]).toContain(answer);
      }
      expect(await ask(services, 0)).toBe(amount);
    }
  });

  it('runs equal requests that come together once', async () => {
    writeAddModel(modelDir(folder.path), [1], CACHED);
    const { services } = await serve();
    const answers = await Promise.all(Array.from({ length: 50 }, () => ask(services, 4)));
    expect(new Set(answers)).toEqual(new Set([5]));
    expect(countsOf(services)).toEqual({ hits: 49, misses: 1, runs: 1 });
  });

  it('keeps answers of an ensemble until one of its models changes', async () => {
    writeAddModel(modelDir(folder.path, 'a'), [1], CACHED);
    writeAddModel(modelDir(folder.path, 'b'), [2], CACHED);
    writeEnsemble('a', 'b');
    const { engine, services } = await serve();
    expect([await ask(services, 1, 'ens'), await ask(services, 1, 'ens')]).toEqual([4, 4]);
    expect(countsOf(services, 'ens')).toMatchObject({ hits: 1, misses: 1 });
    writeAddVersion(modelDir(folder.path, 'b'), '2', 20);
    await engine.control.load('b');
    expect([await ask(services, 1, 'ens'), await ask(services, 1, 'ens')]).toEqual([22, 22]);
    expect(countsOf(services, 'ens')).toMatchObject({ hits: 2, misses: 2 });
    writeAddVersion(modelDir(folder.path, 'b'), '2', 2);
    await engine.control.load('b');
    expect(await ask(services, 1, 'ens')).toBe(4);
  });

  it('refuses response_cache for an ensemble of models without it', async () => {
    writeAddModel(modelDir(folder.path, 'a'), [1], CACHED);
    writeAddModel(modelDir(folder.path, 'b'), [2]);
    writeEnsemble('a', 'b');
    const { engine } = await serve();
    const state = engine.catalog.list().find(({ name }) => name === 'ens');
    expect(state?.reason).toMatch(/step 2.*has response_cache .* and the model does not; set it to true there too/);
  });
});

function writeEnsemble(first: string, second: string): void {
  const steps = [step(first, { x: 'IN' }, { y: 'MID' }), step(second, { x: 'MID' }, { y: 'OUT' })];
  const head = `max_batch_size: 8 ${io('input', 'IN', [-1])} ${io('output', 'OUT', [-1])}`;
  mkdirSync(join(folder.path, 'ens', '1'), { recursive: true });
  writeFileSync(
    join(folder.path, 'ens', 'config.pbtxt'),
    `platform: "ensemble" ${head} ${CACHED} ensemble_scheduling { ${steps.join('\n')} }`,
  );
}

describe('in a pool', () => {
  let redis: RedisServer;

  beforeEach(async () => {
    redis = await startRedis();
  });

  afterEach(async () => {
    await opened.close();
    await redis.stop();
  });

  const knowsModel = (services: Awaited<ReturnType<typeof startProducer>>) =>
    until('the producer knows the model', () => services.catalog.list().some(({ state }) => state === 'READY'));

  it('shares answers between producers by Redis', async () => {
    const repository = join(folder.path, 'one');
    writeAddModel(modelDir(repository), [1], CACHED);
    await startWorker(opened, redis, repository);
    const first = await startProducer(opened, redis, await openRedisStore(opened, redis));
    const second = await startProducer(opened, redis, await openRedisStore(opened, redis));
    await Promise.all([knowsModel(first), knowsModel(second)]);
    expect(await ask(first, 1)).toBe(2);
    await until('the answer is kept', async () => (await redis.client().keys('{millrace}.cache:*')).length === 1);
    expect(await ask(second, 1)).toBe(2);
    expect([countsOf(first), countsOf(second)]).toEqual([
      { hits: 0, misses: 1, runs: 1 },
      { hits: 1, misses: 0, runs: 0 },
    ]);
    const [key = ''] = await redis.client().keys('{millrace}.cache:*');
    const ttlMs = await redis.client().pttl(key);
    expect(ttlMs).toBeGreaterThan(0);
    expect(ttlMs).toBeLessThanOrEqual(60_000);
  });

  it('finds the answers of a worker with equal files, and none of one with others', async () => {
    const [one, other] = [join(folder.path, 'one'), join(folder.path, 'other')];
    writeAddModel(modelDir(one), [1], CACHED);
    writeAddModel(modelDir(other), [1], CACHED);
    const [a, b] = [await startWorker(opened, redis, one), await startWorker(opened, redis, other)];
    expect(a.catalog.resolve('m', '1').identity).toBe(b.catalog.resolve('m', '1').identity);
    writeAddVersion(modelDir(other), '1', 2);
    await b.control.load('m');
    expect(a.catalog.resolve('m', '1').identity).not.toBe(b.catalog.resolve('m', '1').identity);
  });

  it('never answers with what the same version said before all workers replaced it', async () => {
    const repositories = [join(folder.path, 'one'), join(folder.path, 'two')];
    for (const repository of repositories) {
      writeAddModel(modelDir(repository), [1], CACHED);
      await startWorker(opened, redis, repository);
    }
    const services = await startProducer(opened, redis, new LocalStore(1_000_000));
    await until('both workers are known', () => services.catalog.list().length > 0);
    expect(await ask(services, 0)).toBe(1);
    for (let amount = 2; amount < 5; amount += 1) {
      for (const repository of repositories) writeAddVersion(modelDir(repository), '1', amount);
      for (const answer of await askWhile(services, services.control.load('m'))) {
        expect([amount - 1, amount]).toContain(answer);
      }
      for (let i = 0; i < 4; i += 1) expect(await ask(services, 0)).toBe(amount);
    }
    expect(countsOf(services).hits).toBeGreaterThan(6);
  });

  it('answers without Redis, before it is there and after it is gone', async () => {
    const repository = join(folder.path, 'one');
    writeAddModel(modelDir(repository), [1], CACHED);
    const cache = await startRedis();
    await cache.kill();
    const store = await openRedisStore(opened, cache, { connectTimeoutMs: 50 });
    const { services } = await startServe(opened, repository, store);
    expect([await ask(services, 1), await ask(services, 1)]).toEqual([2, 2]);
    expect(countsOf(services)).toEqual({ hits: 0, misses: 2, runs: 2 });
    await cache.start();
    await until('it finds its answers there', async () => {
      await ask(services, 1);
      return countsOf(services).hits > 0;
    });
    await cache.kill();
    expect([await ask(services, 1), await ask(services, 5)]).toEqual([2, 6]);
    await cache.stop();
  });

  it('answers in time when Redis hangs, and then leaves it alone for a while', async () => {
    const repository = join(folder.path, 'one');
    writeAddModel(modelDir(repository), [1], CACHED);
    const store = await openRedisStore(opened, redis, { timeoutMs: 50 });
    const { services } = await startServe(opened, repository, store);
    process.kill(redis.pid, 'SIGSTOP');
    try {
      expect([await ask(services, 1), await ask(services, 2), await ask(services, 3)]).toEqual([2, 3, 4]);
      expect(store.figures().failures).toBeLessThanOrEqual(2);
      expect(store.figures().failures).toBeGreaterThan(0);
    } finally {
      process.kill(redis.pid, 'SIGCONT');
    }
  });

  it('takes what somebody else wrote under its keys for a miss', async () => {
    const repository = join(folder.path, 'one');
    writeAddModel(modelDir(repository), [1], CACHED);
    const store = await openRedisStore(opened, redis);
    const { services } = await startServe(opened, repository, store);
    const client = redis.client();
    await ask(services, 1);
    await until('the answer is kept', async () => (await client.keys('{millrace}.cache:*')).length === 1);
    const [key = ''] = await client.keys('{millrace}.cache:*');
    await client.set(key, 'something else');
    expect(await ask(services, 1)).toBe(2);
    expect(countsOf(services)).toMatchObject({ hits: 0, misses: 2 });
  });

  it('keeps no answer that is larger than an entry may be', async () => {
    const repository = join(folder.path, 'one');
    writeAddModel(modelDir(repository), [1], CACHED);
    const store = await openRedisStore(opened, redis, { maxEntryBytes: 1024 });
    const { services } = await startServe(opened, repository, store);
    await ask(services, 1);
    await ask(services, 1);
    expect(countsOf(services)).toMatchObject({ hits: 0, misses: 2 });
    expect(await redis.client().keys('*')).toEqual([]);
  });

  it('adds nothing to a Redis that is half full and throws nothing away', async () => {
    const full = await startRedis({ args: ['--maxmemory', '20mb'] });
    opened.add(() => full.stop());
    const client = full.client();
    for (let i = 0; i < 60; i += 1) await client.set(`other${i}`, Buffer.alloc(200_000));
    const repository = join(folder.path, 'one');
    writeAddModel(modelDir(repository), [1], CACHED);
    const store = await openRedisStore(opened, full);
    const { services } = await startServe(opened, repository, store);
    await ask(services, 1); // it looks, and this one still goes in
    await client.ping();
    for (let value = 2; value < 6; value += 1) await ask(services, value);
    expect((await client.keys('{millrace}.cache:*')).length).toBeLessThanOrEqual(2);
  });
});
