import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { writeAddModel } from '../support/add-model.ts';
import { type MillraceProcess, startMillrace } from '../support/process.ts';

let folder = '';
let serve: MillraceProcess | undefined;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'millrace-e2e-'));
  for (const name of ['a', 'b']) writeAddModel(join(folder, name), [1]);
});
afterEach(() => serve?.stop());
afterAll(() => rm(folder, { recursive: true, force: true }));

async function start(...options: string[]): Promise<MillraceProcess> {
  serve = await startMillrace(['serve', `--model-repository=${folder}`, '--log-info=false', ...options]);
  return serve;
}

const post = (path: string, headers: Record<string, string> = {}) =>
  fetch(`${serve?.url ?? ''}${path}`, { method: 'POST', headers });
const load = (model: string, headers?: Record<string, string>) => post(`/v2/repository/models/${model}/load`, headers);
const infer = async (model: string) => {
  const body = JSON.stringify({ inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 1], data: [5] }] });
  const answer = await fetch(`${serve?.url ?? ''}/v2/models/${model}/infer`, { method: 'POST', body });
  const { outputs, error } = (await answer.json()) as { outputs?: { data: number[] }[]; error?: string };
  return [answer.status, outputs?.[0]?.data[0] ?? error];
};

test('explicit control says at start what is not loaded, loads it and unloads it', async () => {
  const { stdout: output } = await start('--model-control-mode=explicit', '--load-model=a');
  expect(output()).toMatch(/model\s+a version 1 READY/);
  expect(output()).toMatch(/models\s+not loaded: b; load one: millrace model load NAME/);
  expect(await infer('b')).toEqual([404, "Request for unknown model: 'b' is not loaded"]);
  const loaded = await load('b');
  expect([loaded.status, await loaded.text(), await infer('b')]).toEqual([200, '', [200, 6]]);
  expect((await post('/v2/repository/models/b/unload')).status).toBe(200);
  expect(await infer('b')).toEqual([404, "Request for unknown model: 'b' is unloaded"]);
  expect((await fetch(`${serve?.url ?? ''}/v2/health/ready`)).status).toBe(200);
});

test('a page of another site cannot load, whoever looks at it', async () => {
  await start('--model-control-mode=explicit');
  for (const headers of [{ origin: 'http://evil.example' }, { 'sec-fetch-site': 'cross-site' }]) {
    expect((await load('a', headers)).status).toBe(403);
  }
  expect((await load('a')).status).toBe(200);
});

test('beyond loopback nobody controls models without a header', async () => {
  await start('--model-control-mode=explicit', '--http-address=0.0.0.0');
  const refused = await load('a');
  expect(refused.status).toBe(503);
  expect(await refused.json()).toEqual({
    error: expect.stringContaining('beyond loopback it needs --http-restricted-api=model-repository:') as string,
  });
  await serve?.stop();
  await start(
    '--model-control-mode=explicit',
    '--http-address=0.0.0.0',
    '--http-restricted-api=model-repository:key=v',
  );
  expect((await load('a')).status).toBe(403);
  expect((await load('a', { key: 'v' })).status).toBe(200);
});

test('a model is loaded for the first request, over each protocol that knows it by name', async () => {
  await start('--model-control-mode=explicit', '--load-on-demand', '--model-memory-bytes=100000000');
  expect(await Promise.all([infer('a'), infer('a'), infer('b')])).toEqual([
    [200, 6],
    [200, 6],
    [200, 6],
  ]);
});

test.each([
  [['--load-model=a'], '--load-model goes with --model-control-mode=explicit'],
  [['--load-on-demand'], '--load-on-demand goes with --model-control-mode=explicit'],
  [['--model-config-name=../x'], '--model-config-name expects the name of a file in configs'],
  [['--model-control-mode=explicit', '--load-model=nope'], 'model nope cannot be loaded'],
])('%j ends the start with a reason', async (options, text) => {
  await expect(start(...options)).rejects.toThrow(text);
});
