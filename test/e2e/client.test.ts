import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, expectTypeOf, test } from 'vitest';
import { Millrace, MillraceError } from '../../client/client.ts';
import { makeFixtureRepository } from '../fixtures/make-models.ts';
import { writeAddModel } from '../support/add-model.ts';
import { ROOT, runMillrace } from '../support/process.ts';
import { type Server, startServer } from '../support/serving.ts';

const PORTS = ['--http-port=0', '--grpc-port=0', '--metrics-port=0', '--log-info=false'];

let folder = '';
let models = '';

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'millrace-client-'));
  models = join(folder, 'models');
  await mkdir(models);
  const fixtures = join(folder, 'fixtures');
  makeFixtureRepository(fixtures);
  for (const name of ['id_str', 'id_i64', 'two_in']) await rename(join(fixtures, name), join(models, name));
  writeAddModel(join(models, 'add'), [1, 2], 'version_policy { all { } }');
});
afterAll(() => rm(folder, { recursive: true, force: true }));

type Models = {
  add: { inputs: { x: 'FP32' }; outputs: { y: 'FP32' } };
  id_str: { inputs: { x: 'BYTES' }; outputs: { y: 'BYTES' } };
  id_i64: { inputs: { x: 'INT64' }; outputs: { y: 'INT64' } };
};

describe.each(['serve', 'pool'] as const)('the client, with %s,', (serving) => {
  let server: Server;
  let client: Millrace<Models>;

  beforeAll(async () => {
    server = await startServer(serving, [`--model-repository=${models}`, ...PORTS], 1);
    client = new Millrace<Models>({ url: server.url, timeoutMs: 20_000 });
  });
  afterAll(() => server.stop());

  test('runs a model and gives typed arrays back', async () => {
    const { outputs, version, id } = await client.infer('add', { x: { shape: [1, 2], data: [1, 2] } }, { id: 'a' });
    expect(outputs.y).toEqual({ datatype: 'FP32', shape: [1, 2], data: new Float32Array([3, 4]) });
    expect([version, id]).toEqual(['2', 'a']);
    expectTypeOf(outputs.y.data).toEqualTypeOf<Float32Array>();
    const old = await client.infer('add', { x: { shape: [1, 2], data: [1, 2] } }, { version: '1', outputs: ['y'] });
    expectTypeOf(old.outputs).toHaveProperty('y');
    expect(old.outputs.y.data).toEqual(new Float32Array([2, 3]));
  });

  test('carries texts and 64 bit integers exactly', async () => {
    const text = await client.infer('id_str', { x: { shape: [1, 2], data: ['grüße', ''] } });
    expect(text.outputs.y.data.map((bytes) => new TextDecoder().decode(bytes))).toEqual(['grüße', '']);
    const long = await client.infer('id_i64', { x: { shape: [1, 2], data: [2n ** 62n + 1n, -1] } });
    expect(long.outputs.y.data).toEqual(new BigInt64Array([2n ** 62n + 1n, -1n]));
  });

  test('says what the server says', async () => {
    const wrong = client.infer('add', { x: { shape: [1, 1, 2], data: [1, 2] } });
    await expect(wrong).rejects.toMatchObject({ name: 'MillraceError', status: 400 });
    await expect(wrong).rejects.toThrow('[1,1,2]');
    const untyped = new Millrace({ url: server.url });
    await expect(untyped.infer('nope', {})).rejects.toMatchObject({ status: 404 });
    const named = untyped.infer('add', { z: { shape: [1], data: [1] } });
    await expect(named).rejects.toThrow("model 'add' has no input 'z'; it takes x");
  });

  test('knows the models and whether they are ready', async () => {
    expect(await client.ready()).toBe(true);
    expect(await client.ready('add')).toBe(true);
    expect(await new Millrace({ url: server.url }).ready('nope')).toBe(false);
    const { inputs, versions } = await client.metadata('add');
    expect(inputs).toEqual([{ name: 'x', datatype: 'FP32', shape: [-1, -1] }]);
    expect(versions).toContain('2');
    expect((await client.models()).find(({ name }) => name === 'add')).toMatchObject({ state: 'READY' });
  });

  test('ends a call that is aborted', async () => {
    const abort = new AbortController();
    const call = client.infer('add', { x: { shape: [1, 2], data: [1, 2] } }, { signal: abort.signal });
    abort.abort();
    await expect(call).rejects.toThrow('the call was aborted');
  });

  test('enqueues, and whoever has the id fetches the answer', async () => {
    const job = await client.enqueue('add', { x: { shape: [1, 2], data: [5, 6] } }, { delayMs: 50 });
    const states: string[] = [];
    for await (const { state } of job.events()) states.push(state);
    expect(states.at(-1)).toBe('succeeded');
    const { outputs } = await new Millrace<Models>({ url: server.url })
      .job<'add'>(job.id)
      .result({ timeoutMs: 5000.5 });
    expect(outputs.y.data).toEqual(new Float32Array([7, 8]));
    expect(await job.status()).toMatchObject({ id: job.id, model: 'add', state: 'succeeded', attempts: { made: 1 } });
    await expect(job.cancel()).rejects.toMatchObject({ status: 409 });
  });

  test('makes one job of one idempotency key', async () => {
    const options = { idempotencyKey: `once-${serving}`, delayMs: 60_000 };
    const x = { shape: [1, 2], data: [1, 2] };
    const first = await client.enqueue('add', { x }, options);
    expect((await client.enqueue('add', { x }, options)).id).toBe(first.id);
    const other = client.enqueue('add', { x: { ...x, data: [1, 3] } }, options);
    await expect(other).rejects.toMatchObject({ status: 422 });
    expect(await first.cancel()).toMatchObject({ state: 'cancelled' });
    await expect(first.result()).rejects.toMatchObject({ status: 410 });
    await expect(first.result({ timeoutMs: 0 })).rejects.toThrow('was not over within 0 ms');
  });

  test('codegen writes types that the compiler takes and holds callers to', async () => {
    const file = join(folder, `${serving}.ts`);
    const args = ['codegen', 'add', 'id_str', 'two_in', `--url=${server.url}`, `--out=${file}`];
    expect((await runMillrace(args)).code).toBe(0);
    const text = await readFile(file, 'utf8');
    expect(text).toContain("  add: {\n    inputs: {\n      /** [-1, -1] */\n      x: 'FP32';\n    };");
    if (serving === 'serve') await expectTypesHold(file);
  });
});

/** What codegen wrote lets right calls compile, and wrong ones not. */
async function expectTypesHold(file: string): Promise<void> {
  const entry = JSON.stringify(join(ROOT, 'client', 'client.ts'));
  const use = (call: string) => `
import { Millrace } from ${entry};
import type { Models } from './${basename(file)}';
const client = new Millrace<Models>({ url: '' });
const a = { shape: [1, 1], data: [1] };
export const run = async (): Promise<Float32Array> => (${call}).outputs.y.data;\n`;
  const good = join(folder, 'good.ts');
  const bad = join(folder, 'bad.ts');
  const cut = join(folder, 'cut.ts');
  await writeFile(good, use("await client.infer('add', { x: a })"));
  await writeFile(bad, use("await client.infer('add', { z: { shape: [1, 2], data: ['a'] } })"));
  await writeFile(cut, use("await client.infer('two_in', { a, b: a }, { outputs: [] as never[] })"));
  const problems = (await compile([good, bad, cut])).split('\n').filter((line) => /^\S/.test(line));
  expect(problems).toEqual([
    expect.stringMatching(/bad\.ts.*'z' does not exist/),
    expect.stringMatching(/cut\.ts.*'y' does not exist/),
  ]);
}

async function compile(files: readonly string[]): Promise<string> {
  const compiler = join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc');
  const types = ['--types', 'node', '--typeRoots', join(ROOT, 'node_modules', '@types')];
  const options = ['--noEmit', '--strict', '--skipLibCheck', '--allowImportingTsExtensions', '--ignoreConfig'];
  const modules = ['--module', 'nodenext', '--target', 'es2023', '--verbatimModuleSyntax', 'false'];
  try {
    await promisify(execFile)(process.execPath, [compiler, ...options, ...modules, ...types, ...files]);
    return '';
  } catch (error) {
    return (error as { stdout: string }).stdout;
  }
}

describe('a server that is busy', () => {
  /** Refuses the first requests, then answers. */
  async function busyServer(refusals: number, status: number, headers: Record<string, string>) {
    let requests = 0;
    const server = createServer((_request, response) => {
      requests += 1;
      if (requests <= refusals) response.writeHead(status, headers).end('{"error":"busy"}');
      else response.writeHead(200).end('{"model_name":"m","outputs":[]}');
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as { port: number };
    return { url: `http://127.0.0.1:${port}`, requests: () => requests, close: () => server.close() };
  }

  test('is asked again when it says so', async () => {
    const server = await busyServer(2, 429, { 'retry-after': '0' });
    const { model } = await new Millrace({ url: server.url }).infer('m', {});
    expect([model, server.requests()]).toEqual(['m', 3]);
    server.close();
  });

  test('gets no second request for a job that is over, whatever it ended with', async () => {
    const server = await busyServer(9, 503, { 'millrace-job-state': 'failed' });
    const call = new Millrace({ url: server.url }).job('j').result();
    await expect(call).rejects.toMatchObject({ status: 503, jobState: 'failed', message: 'busy' });
    expect(server.requests()).toBe(1);
    server.close();
  });

  test('is left alone when that would be too late, and when retries is 0', async () => {
    const server = await busyServer(9, 429, { 'retry-after': '60' });
    const late = new Millrace({ url: server.url, timeoutMs: 1000 }).infer('m', {});
    await expect(late).rejects.toMatchObject({ status: 429, retryAfterMs: 60_000, message: 'busy' });
    await expect(new Millrace({ url: server.url, retries: 0 }).infer('m', {})).rejects.toBeInstanceOf(MillraceError);
    expect(server.requests()).toBe(2);
    server.close();
  });

  test('gets no request of a sequence twice, which would move its state', async () => {
    const server = await busyServer(1, 503, {});
    const call = new Millrace({ url: server.url }).infer('m', {}, { parameters: { sequence_id: 7 } });
    await expect(call).rejects.toMatchObject({ status: 503 });
    expect(server.requests()).toBe(1);
    server.close();
  });
});

test.each(['ftp://x', 'http://', 'localhost:99999'])('an address like %s is refused at once', (url) => {
  expect(() => new Millrace({ url })).toThrow('url: expected an address like http://localhost:8000');
});

test('a time limit of any size is one, and what is none is refused', async () => {
  const client = new Millrace({ url: 'http://127.0.0.1:9', retries: 0 });
  await expect(client.ready(undefined, { timeoutMs: Infinity })).rejects.toThrow(/no answer from/);
  await expect(client.ready(undefined, { timeoutMs: 0.5 })).rejects.toThrow(/no answer/);
  await expect(client.ready(undefined, { timeoutMs: NaN })).rejects.toThrow('timeoutMs: expected a number from 0 up');
});

test('a server that is not there is said to be so', async () => {
  const call = new Millrace({ url: 'http://127.0.0.1:9', retries: 0 }).ready();
  await expect(call).rejects.toMatchObject({ status: 0, message: expect.stringMatching(/no answer from/) as string });
});
