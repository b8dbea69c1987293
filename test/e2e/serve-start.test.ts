import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { VERSION } from '../../cli/version.ts';
import { makeFixtureRepository } from '../fixtures/make-models.ts';
import { type MillraceProcess, ROOT, startMillrace } from '../support/process.ts';

const shell = promisify(execFile);
const EXAMPLES = join(ROOT, 'examples', 'models');
const QUIET = '--log-info=false';

interface LabelScore {
  readonly label: string;
  readonly score: number;
}

describe('millrace serve on the example models', () => {
  let serve: MillraceProcess;

  beforeAll(async () => {
    serve = await startMillrace(['serve', '--model-repository=examples/models', QUIET]);
  });
  afterAll(() => serve.stop());

  test('says what is ready, where it listens, and what to send', () => {
    expect(serve.stdout()).toBe(
      [
        `Millrace ${VERSION}, serve is ready`,
        '',
        '  model     digits_mlp version 1 READY',
        '  model     efficientnet_lite0_int8 version 1 READY, image-classification',
        '  model     magika version 1 READY, file-type',
        '  model     minilm version 1 READY, feature-extraction',
        `  HTTP      ${serve.url}  (a page to try it: ${serve.url}/)`,
        `  gRPC      ${serve.grpcAddress}`,
        `  metrics   ${serve.metricsUrl}`,
        '',
        'Try it:',
        `  curl --data-binary @examples/photos/coffee.png ${serve.url}/models/efficientnet_lite0_int8`,
        '',
        '',
      ].join('\n'),
    );
    expect(serve.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    expect(serve.stderr()).toBe('');
  });

  test('the line to try works as it is printed', async () => {
    const labels = await runPrintedCurl(serve, ROOT);
    expect(labels[0]).toMatchObject({ label: 'espresso' });
    expect(labels[0]!.score).toBeCloseTo(0.951, 2);
  });

  test('serves a page at /', async () => {
    const response = await fetch(`${serve.url}/`, { headers: { accept: 'text/html' } });
    expect(response.status).toBe(200);
    expect(response.headers.get('content-type')).toBe('text/html; charset=utf-8');
    expect(await response.text()).toMatch(/^<!doctype html>[^]*<title>Millrace/i);
  });

  test('prints nothing for requests, good or bad', async () => {
    await fetch(`${serve.url}/v2/models/digits_mlp`);
    await fetch(`${serve.url}/v2/models/nothing`);
    await fetch(`${serve.url}/v2/models/digits_mlp/infer`, { method: 'POST', body: '{"inputs":' });
    expect(serve.stderr()).toBe('');
  });
});

describe('millrace serve elsewhere', () => {
  let folder = '';

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'millrace-e2e-'));
    makeFixtureRepository(join(folder, 'first'), ['simple']);
    makeFixtureRepository(join(folder, 'second'), ['rowsum']);
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  test('from another folder, the line to try still finds its photo', async () => {
    const serve = await startMillrace(['serve', `--model-repository=${EXAMPLES}`, QUIET], { cwd: folder });
    expect((await runPrintedCurl(serve, folder))[0]).toMatchObject({ label: 'espresso' });
    expect(await serve.stop()).toBe(0);
  });

  test('a model that takes tensors only gives a line to look at it', async () => {
    const serve = await startMillrace(['serve', '--model-store', 'first', QUIET], { cwd: folder });
    const line = printedCurl(serve);
    expect(line).toBe(`curl ${serve.url}/v2/models/simple`);
    const { stdout } = await shell('/bin/sh', ['-c', line]);
    expect(JSON.parse(stdout)).toMatchObject({ name: 'simple', versions: ['1'] });
    expect(await serve.stop()).toBe(0);
  });

  test('takes its options from the environment; the command line wins', async () => {
    const serve = await startMillrace(['serve', '--allow-metrics=true', '--metrics-port=0'], {
      cwd: folder,
      env: {
        MILLRACE_MODEL_REPOSITORY: 'first:second',
        MILLRACE_HTTP_PORT: '0',
        MILLRACE_HTTP_ADDRESS: '0.0.0.0',
        MILLRACE_ALLOW_METRICS: 'false',
        MILLRACE_METRICS_PORT: '1',
        MILLRACE_LOG_INFO: 'off',
        MILLRACE_MAX_REQUEST_BYTES: '1024',
      },
    });
    expect(serve.stdout()).toMatch(/model +rowsum version 1 READY\n +model +simple version 1 READY/);
    expect(serve.url).toMatch(/^http:\/\/127\.0\.0\.1:/);
    expect((await fetch(serve.metricsUrl)).status).toBe(200);
    expect(serve.stderr()).toBe('');
    const body = JSON.stringify({ id: 'x'.repeat(1024), inputs: [] });
    expect((await fetch(`${serve.url}/v2/models/simple/infer`, { method: 'POST', body })).status).toBe(413);
    expect(await serve.stop()).toBe(0);
  });

  test('has no metrics port with --allow-metrics=false', async () => {
    const serve = await startMillrace(['serve', '--model-repository=first', '--allow-metrics=false', QUIET], {
      cwd: folder,
    });
    expect(serve.stdout()).not.toContain('metrics');
    expect(await serve.stop()).toBe(0);
  });

  test('runs the same model through the binding of the npm package', async () => {
    const serve = await startMillrace(['serve', '--model-repository=second', '--onnxruntime-api=binding', QUIET], {
      cwd: folder,
    });
    const x = { name: 'x', datatype: 'FP32', shape: [2, 3], data: [1, 2, 3, 4, 5, 6] };
    const response = await fetch(`${serve.url}/v2/models/rowsum/infer`, {
      method: 'POST',
      body: JSON.stringify({ inputs: [x] }),
    });
    expect(await response.json()).toMatchObject({ outputs: [{ name: 'y', shape: [2, 1], data: [6, 15] }] });
    expect(await serve.stop()).toBe(0);
  });
});

function printedCurl(serve: MillraceProcess): string {
  return /^Try it:\n {2}(curl .+)$/m.exec(serve.stdout())![1]!;
}

async function runPrintedCurl(serve: MillraceProcess, cwd: string): Promise<LabelScore[]> {
  const { stdout } = await shell('/bin/sh', ['-c', printedCurl(serve)], { cwd });
  return JSON.parse(stdout) as LabelScore[];
}
