import { once } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { makeFixtureModel, makeFixtureRepository } from '../fixtures/make-models.ts';
import { type Ended, runMillrace, startMillrace } from '../support/process.ts';
import { startRedis } from '../support/redis.ts';

const QUIET = '--log-info=false';
let folder = '';
let good = '';
let mixed = '';

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'millrace-e2e-'));
  good = join(folder, 'good');
  mixed = join(folder, 'mixed');
  makeFixtureRepository(good, ['simple']);
  makeFixtureRepository(mixed, ['simple']);
  makeFixtureModel(join(mixed, 'typo'), 'mlp', 'platform: "onnxruntime_onnx"\nmax_batch_sise: 8\n');
  makeFixtureModel(join(mixed, 'cut'), 'mlp');
  await writeFile(join(mixed, 'cut', '1', 'model.onnx'), 'this is no model');
  await mkdir(join(folder, 'empty', '.hidden'), { recursive: true });
  await writeFile(join(folder, 'empty', 'notes.txt'), 'no model here');
});
afterAll(() => rm(folder, { recursive: true, force: true }));

describe('a port that is taken', () => {
  let other: Server;
  let port = 0;

  beforeAll(async () => {
    other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    const address = other.address();
    port = typeof address === 'object' && address !== null ? address.port : 0;
  });
  afterAll(() => other.close());

  test.each(['http', 'grpc', 'metrics'])(
    'for %s: serve says which option chooses another, and leaves',
    async (what) => {
      const ports = ['--http-port=0', '--grpc-port=0', '--metrics-port=0', `--${what}-port=${port}`];
      const ended = await runMillrace(['serve', `--model-repository=${good}`, QUIET, ...ports]);
      expect(ended.stderr).toContain(`port ${port} of 127.0.0.1 is taken`);
      expect(ended.stderr).toContain(`--${what}-port`);
      expectOneLine(ended);
    },
  );

  test.each(['http', 'grpc', 'metrics'])('for %s: a producer leaves, too', async (what) => {
    const redis = await startRedis();
    try {
      const ports = ['--http-port=0', '--grpc-port=0', '--metrics-port=0', `--${what}-port=${port}`];
      const ended = await runMillrace(['producer', `--redis=${redis.url}`, QUIET, ...ports]);
      expect(ended.stderr).toContain(`port ${port} of 127.0.0.1 is taken`);
      expectOneLine(ended);
    } finally {
      await redis.stop();
    }
  });

  test('for metrics: a worker leaves, too', async () => {
    const redis = await startRedis();
    try {
      const options = [`--redis=${redis.url}`, `--model-repository=${good}`, `--metrics-port=${port}`, QUIET];
      const ended = await runMillrace(['worker', ...options]);
      expect(ended.stderr).toContain(`port ${port} of 127.0.0.1 is taken`);
      expectOneLine(ended);
    } finally {
      await redis.stop();
    }
  });

  test('an address that is not of this machine is said', async () => {
    const options = [
      `--model-repository=${good}`,
      '--http-address=192.0.2.1',
      '--http-port=0',
      '--grpc-port=0',
      '--metrics-port=0',
    ];
    const ended = await runMillrace(['serve', QUIET, ...options]);
    expect(ended.stderr).toContain('192.0.2.1 is no address of this machine');
    expectOneLine(ended);
  });
});

describe('a model repository', () => {
  test('that does not exist is named as it was given', async () => {
    const ended = await serveOnce(join(folder, 'nowhere'));
    expect(ended.stderr).toContain(join(folder, 'nowhere'));
    expect(ended.stderr).toContain('there is no such folder');
    expectOneLine(ended);
  });

  test('that is a file is said to be no folder', async () => {
    const ended = await serveOnce(join(folder, 'empty', 'notes.txt'));
    expect(ended.stderr).toContain('it is not a folder');
    expectOneLine(ended);
  });

  test('without a model folder is said to be empty', async () => {
    const ended = await serveOnce(join(folder, 'empty'));
    expect(ended.stderr).toContain('no model folder in');
    expectOneLine(ended);
  });
});

describe('a model that cannot be loaded', () => {
  test('ends the start; each such model has a line with its reason', async () => {
    const ended = await serveOnce(mixed);
    expect(ended.code).toBe(1);
    const lines = ended.stderr.trimEnd().split('\n');
    const typo = lines.find((line) => line.includes('typo') && !line.startsWith('{'))!;
    expect(typo).toContain('cannot be loaded');
    expect(typo).toContain('max_batch_sise');
    expect(typo).toMatch(/config\.pbtxt:2:\d+/);
    expect(lines.some((line) => /^(millrace: )?model cut version 1 cannot be loaded: .+/.test(line))).toBe(true);
    expect(lines.at(-1)).toContain('--exit-on-error=false');
    expect(ended.stderr).not.toMatch(/\n +at /);
  });

  test('is left out with --exit-on-error=false: the others are served, and the server is not ready', async () => {
    const serve = await startMillrace(['serve', `--model-repository=${mixed}`, '--exit-on-error=false', QUIET]);
    expect(serve.stdout()).toMatch(/model +simple version 1 READY/);
    expect(serve.stdout()).toMatch(/model +typo version 1 UNAVAILABLE: .*max_batch_sise/);
    expect(serve.stdout()).toMatch(/model +cut version 1 UNAVAILABLE: /);
    const status = async (path: string) => (await fetch(`${serve.url}${path}`)).status;
    expect(await status('/v2/models/simple/ready')).toBe(200);
    expect(await status('/v2/models/cut/ready')).not.toBe(200);
    expect(await status('/v2/health/live')).toBe(200);
    expect(await status('/v2/health/ready')).not.toBe(200);
    expect(await serve.stop()).toBe(0);
  });
});

describe('Redis', () => {
  test.each(['producer', 'worker'])('that cannot be reached ends a %s with one line', async (command) => {
    const unused = await startRedis();
    await unused.stop();
    const ended = await runMillrace([command, ...queueOptions(command, unused.url)]);
    expect(ended.stderr).toContain('Redis');
    expectOneLine(ended);
  });

  test.each(['producer', 'worker'])('that evicts keys is refused by a %s', async (command) => {
    const redis = await startRedis({ args: ['--maxmemory-policy', 'allkeys-lru'] });
    try {
      const ended = await runMillrace([command, ...queueOptions(command, redis.url)]);
      expect(ended.stderr).toContain('noeviction');
      expect(ended.stderr).toContain('allkeys-lru');
      expectOneLine(ended, 2);
    } finally {
      await redis.stop();
    }
  });
});

describe('a restriction that cannot be', () => {
  test.each([
    ['--http-restricted-api', 'helth:k=opensesame', 'did you mean health?'],
    ['--http-restricted-api', 'health,health:k=opensesame', 'health is given twice'],
    ['--grpc-restricted-protocol', 'health:k', 'no "="'],
  ])('%s=%s ends the start with one line that shows no secret', async (option, rule, text) => {
    const ended = await runMillrace(['serve', `--model-repository=${good}`, QUIET, `${option}=${rule}`]);
    expect(ended.stderr).toContain(option);
    expect(ended.stderr).toContain(text);
    expect(ended.stderr).not.toContain('opensesame');
    expectOneLine(ended, 2);
  });
});

function queueOptions(command: string, redisUrl: string): string[] {
  const own = command === 'worker' ? [`--model-repository=${good}`] : ['--http-port=0'];
  return [`--redis=${redisUrl}`, '--metrics-port=0', '--log-info=false', '--log-warning=false', ...own];
}

function serveOnce(repository: string): Promise<Ended> {
  return runMillrace([
    'serve',
    `--model-repository=${repository}`,
    QUIET,
    '--http-port=0',
    '--grpc-port=0',
    '--metrics-port=0',
  ]);
}

function expectOneLine({ code, stdout, stderr }: Ended, wanted = 1): void {
  expect(stderr).toMatch(/^millrace: [^\n]+\n$/);
  expect({ code, stdout }).toEqual({ code: wanted, stdout: '' });
}
