import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { makeFixtureModel } from '../fixtures/make-models.ts';
import { type MillraceProcess, runMillrace, startMillrace } from '../support/process.ts';

let folder = '';

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'millrace-model-server-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const model = (...args: string[]) => runMillrace(['model', ...args]);

describe('millrace model list, load and unload', () => {
  let serve: MillraceProcess;

  beforeAll(async () => {
    const repository = join(folder, 'served');
    makeFixtureModel(join(repository, 'mlp'), 'mlp');
    makeFixtureModel(join(repository, 'simple'), 'simple');
    makeFixtureModel(join(repository, 'typo'), 'mlp', 'max_batch_sise: 8');
    serve = await startMillrace([
      'serve',
      `--model-repository=${repository}`,
      '--model-control-mode=explicit',
      '--load-model=mlp',
      '--log-info=false',
      '--log-error=false',
    ]);
  });
  afterAll(() => serve.stop());

  test('list is a table of what the server has', async () => {
    const { code, stdout } = await model('list', `--url=${serve.url}`);
    expect(code).toBe(0);
    expect(stdout).toBe(
      'model   version  state  reason\nmlp     1        READY\nsimple  -        -\ntypo    -        -\n',
    );
  });

  test('load and unload change it, and show what became of it', async () => {
    const load = await model('load', 'simple', `--url=${serve.url}`);
    expect(load).toMatchObject({ code: 0, stdout: expect.stringMatching(/^simple +1 +READY$/m) as string });
    const unload = await model('unload', 'simple', '--json', `--url=${serve.url}`);
    expect(JSON.parse(unload.stdout)).toMatchObject({ ok: true, model: 'simple', versions: [{ version: '1' }] });
  });

  test('load takes another config, as config.pbtxt or as JSON', async () => {
    const pbtxt = join(folder, 'other.pbtxt');
    const json = join(folder, 'other.json');
    await writeFile(pbtxt, 'platform: "onnxruntime_onnx"\nmax_batch_size: 3\n');
    await writeFile(json, '{ "platform": "onnxruntime_onnx", "max_batch_size": 5 }');
    const size = async () => {
      const answer = await fetch(`${serve.url}/v2/models/mlp/config`);
      return ((await answer.json()) as { max_batch_size: number }).max_batch_size;
    };
    for (const [file, wanted] of [[pbtxt, 3] as const, [json, 5] as const]) {
      expect(await model('load', 'mlp', `--config=${file}`, `--url=${serve.url}`)).toMatchObject({ code: 0 });
      expect(await size()).toBe(wanted);
    }
    await writeFile(pbtxt, 'max_batch_sise: 3');
    const wrong = await model('load', 'mlp', `--config=${pbtxt}`, `--url=${serve.url}`);
    expect(wrong.code).toBe(1);
    expect(wrong.stderr).toContain('other.pbtxt:1:1: unknown field "max_batch_sise"');
  });

  test('what the server refuses is printed as it says it, with exit code 1', async () => {
    const broken = await model('load', 'typo', `--url=${serve.url}`);
    expect(broken).toMatchObject({ code: 1, stdout: '' });
    expect(broken.stderr).toContain('config.pbtxt:1:1: unknown field "max_batch_sise"');
    const unknown = await model('load', 'nowhere', '--json', `--url=${serve.url}`);
    expect(unknown).toMatchObject({ code: 1, stderr: '' });
    expect(JSON.parse(unknown.stdout)).toMatchObject({
      ok: false,
      error: { message: expect.stringContaining('nowhere') as string },
    });
  });
});

describe('a server that does not do what is asked for', () => {
  test('which loads its models at start only is quoted', async () => {
    const serve = await startMillrace(['serve', '--model-repository=examples/models', '--log-info=false']);
    const { code, stderr } = await model('unload', 'minilm', `--url=${serve.url}`);
    await serve.stop();
    expect(code).toBe(1);
    expect(stderr).toContain('explicit model load / unload is not allowed');
  });

  test('which is not there is said with its address', async () => {
    const server = createServer();
    const url = await listen(server);
    await new Promise((resolve) => server.close(resolve));
    const { code, stderr } = await model('list', `--url=${url}`);
    expect(code).toBe(1);
    expect(stderr).toBe(
      `millrace: no server at ${url}: nothing listens there; start one, or name another with --url\n`,
    );
  });

  test.each([
    { what: 'which says nothing', answer: undefined, args: ['--timeout-secs=1'], says: 'within 1 s (--timeout-secs)' },
    { what: 'which is none', answer: '<html>', args: [], says: 'is it an inference server?' },
    {
      what: 'which answers with something else',
      answer: '{}',
      args: [],
      says: 'did not answer with a repository index',
    },
  ])('$what is said to be so', async ({ answer, args, says }) => {
    const server = createServer((_request, reply) => {
      if (answer !== undefined) reply.end(answer);
    });
    const url = await listen(server);
    const { code, stderr } = await model('list', `--url=${url}`, ...args);
    server.closeAllConnections();
    server.close();
    expect(code).toBe(1);
    expect(stderr).toContain(says);
  });

  test('gets the headers that are given', async () => {
    let seen: string | undefined;
    const server = createServer((request, reply) => {
      seen = request.headers['admin-key'] as string | undefined;
      reply.end('[]');
    });
    const url = await listen(server);
    const { code, stdout } = await model('list', '--header=admin-key=s=ecret', `--url=${url}/`);
    server.closeAllConnections();
    server.close();
    expect({ code, seen }).toEqual({ code: 0, seen: 's=ecret' });
    expect(stdout).toContain('has no models');
  });

  async function listen(server: Server): Promise<string> {
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const address = server.address();
    return `http://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}`;
  }
});
