import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { makeFixtureModel } from '../../fixtures/make-models.ts';
import type { EngineUnderTest } from './kit.ts';
import { i64, intsFrom, send, startEngine, temporaryFolder } from './kit.ts';
import { type WatchedBackend, watchedBackend } from './watched-backend.ts';

let folder: ReturnType<typeof temporaryFolder>;
let running: EngineUnderTest | undefined;
let watched: WatchedBackend;

beforeEach(() => {
  folder = temporaryFolder();
  running = undefined;
  watched = watchedBackend();
});

afterEach(async () => {
  await running?.close();
  folder.remove();
});

/** The model `slow`, whose runs take a while, with groups of the test's own. */
function writeSlow(name: string, groups: string): void {
  const io = (kind: string, tensor: string) => `${kind} { name: "${tensor}" data_type: TYPE_INT64 dims: [ 1 ] }`;
  makeFixtureModel(
    join(folder.path, name),
    'slow',
    `max_batch_size: 1 ${io('input', 'x')} ${io('output', 'y')} ${groups}`,
  );
}

const needs = (limiter: string, count = 1) => `instance_group { count: ${count} rate_limiter { ${limiter} } }`;

async function start(limits?: Record<string, number>): Promise<void> {
  running = await startEngine([folder.path], {
    backend: watched.backend,
    instanceSlots: 4,
    ...(limits && { rateLimits: new Map(Object.entries(limits)) }),
  });
}

const ask = (model: string, x = 1) => intsFrom(send(running!.engine, model, [i64('x', [1, 1], [x])]));

function reasonOf(name: string): string | undefined {
  return running?.engine.catalog.list().find((model) => model.name === name)?.reason;
}

describe('passive instances', () => {
  it('are loaded, never run, and closed with the model', async () => {
    writeSlow('m', 'instance_group [ { count: 1 passive: true }, { count: 2 } ]');
    await start();
    expect(watched.instances).toHaveLength(3);
    expect(await Promise.all([1, 2, 3, 4].map((x) => ask('m', x)))).toEqual([[1], [2], [3], [4]]);
    expect(watched.instances.map(({ runs }) => runs.length > 0)).toEqual([false, true, true]);
    await running?.close();
    expect(watched.instances.map(({ closed }) => closed)).toEqual([true, true, true]);
  });

  it('are not all that there may be', async () => {
    writeSlow('m', 'instance_group { passive: true }');
    await start();
    expect(reasonOf('m')).toContain('instance_group: expected a group that is not passive');
  });
});

describe('rate_limiter', () => {
  it('means nothing unless it is switched on', async () => {
    writeSlow('m', needs('resources { name: "R" count: 1 }', 2));
    await start();
    await Promise.all([ask('m'), ask('m'), ask('m')]);
    expect(watched.mostAtOnce()).toBe(2);
  });

  it('keeps instances of one model from running together that take the same', async () => {
    writeSlow('m', needs('resources { name: "R" count: 1 }', 2));
    await start({});
    expect(await Promise.all([1, 2, 3, 4].map((x) => ask('m', x)))).toEqual([[1], [2], [3], [4]]);
    expect(watched.mostAtOnce()).toBe(1);
  });

  it('keeps instances of different models from it, and lets others run', async () => {
    writeSlow('a', needs('resources { name: "R" count: 1 }'));
    writeSlow('b', needs('resources { name: "R" count: 1 }'));
    writeSlow('c', 'instance_group { count: 1 }');
    await start({});
    await Promise.all(['a', 'b', 'c', 'a', 'b', 'c'].map((model) => ask(model)));
    expect(watched.mostAtOnce()).toBe(2);
  });

  it('lets as many run together as the operator gives', async () => {
    writeSlow('m', needs('resources { name: "R" count: 1 }', 4));
    await start({ R: 3 });
    await Promise.all(Array.from({ length: 8 }, () => ask('m')));
    expect(watched.mostAtOnce()).toBe(3);
  });

  it('does not load a model that could never run, and frees it', async () => {
    writeSlow('m', needs('resources { name: "R" count: 4 }'));
    await start({ R: 3 });
    expect(reasonOf('m')).toContain(
      'model "m": rate_limiter: resource "R": 4 are needed, --rate-limit-resource gives 3',
    );
    expect(watched.instances.every(({ closed }) => closed)).toBe(true);
  });

  it.each([
    ['resources { count: 1 }', 'rate_limiter: resources 0: name is missing'],
    ['resources { name: "R" }', 'rate_limiter: resource "R": expected a count from 1 up, got 0'],
    ['resources [ { name: "R" count: 1 }, { name: "R" count: 2 } ]', 'rate_limiter: resource "R" is listed twice'],
  ])('refuses %s', async (limiter, problem) => {
    writeSlow('m', needs(limiter));
    await start();
    expect(reasonOf('m')).toContain(`instance_group "m_0": ${problem}`);
  });
});
