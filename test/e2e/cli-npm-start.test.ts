import { chmod, cp, mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type MillraceProcess, ROOT, runMillrace, startMillrace } from '../support/process.ts';
import { until } from '../support/redis.ts';
import { scrape } from '../support/scrape.ts';
import { makeOneInstanceSlow } from '../support/slow-model.ts';

/** Compiling on two shared cores. */
const BUILD_TIMEOUT_MS = 400_000;
/** `nobody` on every Unix. */
const NOBODY = 65_534;
const NPM_START = ['npm', 'start', '--'];
const NOT_COPIED = new Set(['node_modules', 'dist', '.git', '.cache', 'coverage', 'bench']);

let folder = '';
let copy = '';

/** The repository as a clone has it, with the packages of this one; in a folder whose name has a space. */
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'millrace-e2e-'));
  await chmod(folder, 0o755);
  copy = join(folder, 'my clone');
  makeOneInstanceSlow(join(folder, 'more'));
  await cp(ROOT, copy, {
    recursive: true,
    preserveTimestamps: true,
    filter: (path) => path === ROOT || !NOT_COPIED.has(basename(path)),
  });
  await symlink(join(ROOT, 'node_modules'), join(copy, 'node_modules'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

describe('npm start', () => {
  let start: MillraceProcess;

  test(
    'in a fresh clone builds and serves the example models',
    async () => {
      start = await startMillrace([], { cwd: copy, command: NPM_START, readyTimeoutMs: BUILD_TIMEOUT_MS });
      expect(start.stdout()).toMatch(/model +efficientnet_lite0_int8 version 1 READY, image-classification/);
      expect(start.stdout()).toContain(
        `curl --data-binary @examples/photos/coffee.png ${start.url}/models/efficientnet_lite0_int8`,
      );
      expect((await fetch(`${start.url}/v2/health/ready`)).status).toBe(200);
    },
    BUILD_TIMEOUT_MS + 60_000,
  );

  test('ends the server on a SIGTERM that reaches npm alone', async () => {
    start.kill('SIGTERM');
    await start.exited; // of whatever holds its output open, the server too
    expect(start.stderr()).toContain('shutting down');
    await expect(fetch(start.url)).rejects.toThrow();
  });

  test('answers what is in hand after Ctrl-C, which reaches npm and the server alike', async () => {
    start = await startMillrace(['--model-repository=../more'], { cwd: copy, command: NPM_START });
    // Each fills a batch, and batches run one after the other.
    const rows = [40, 1, 1, 1];
    const body = JSON.stringify({ inputs: [{ name: 'x', datatype: 'INT64', shape: [4, 1], data: rows }] });
    const url = `${start.url}/v2/models/slow/infer`;
    const answers = [1, 2].map(() => fetch(url, { method: 'POST', body }));
    await until('one runs and one waits', async () => (await pending(start.metricsUrl)) === 1);
    start.killAll('SIGINT');
    for (const answer of answers) expect(await (await answer).json()).toMatchObject({ outputs: [{ data: rows }] });
    await start.exited;
    await expect(fetch(start.url)).rejects.toThrow();
  });

  test('passes its options on, and starts without building again', async () => {
    const command = ['npm', 'start', '--silent', '--'];
    const options = ['--model-repository=nowhere', '--http-port=0', '--grpc-port=0', '--metrics-port=0'];
    const { code, stderr } = await runMillrace(options, { cwd: copy, command });
    expect(stderr).toContain("millrace: model repository 'nowhere' cannot be read: there is no such folder");
    expect(code).toBe(1);
  });

  test('in a folder that cannot be written to says so in one line', async () => {
    const bound = process.getuid?.() === 0 ? { uid: NOBODY } : {};
    await chmod(copy, 0o555);
    try {
      const ended = await runMillrace([], { cwd: copy, command: [process.execPath, 'scripts/start.mjs'], ...bound });
      expect(ended.stderr).toMatch(/^millrace: this folder cannot be written to[^\n]*\n$/);
      expect(ended).toMatchObject({ code: 1, stdout: '' });
    } finally {
      await chmod(copy, 0o755);
    }
  });
});

async function pending(metricsUrl: string): Promise<number | undefined> {
  return (await scrape(metricsUrl)).get('nv_inference_pending_request_count{model="slow",version="1"}');
}
