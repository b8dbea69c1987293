import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type MillraceProcess, ROOT, startMillrace } from '../support/process.ts';
import { pythonWithClients, run } from '../support/python.ts';

const SUITE = join(ROOT, '..', 'shared', 'conformance');
const LIST = join(ROOT, 'test', 'clients', 'conformance-passes.txt');

/** What the suite wants not to be loaded at start, or says to be broken. */
const LEFT_OUT = ['broken_config', 'broken_model', 'never_loaded', 'on_demand', 'wrong_shape'];
/** What they need is not there yet: ensembles, queue policies and priorities. */
const NOT_YET = ['ensemble_branches', 'ensemble_pre_post', 'slow_delay', 'slow_priority', 'slow_queue'];

/** The files about what is served over HTTP now. */
const FILES = ['health', 'metadata', 'infer_http', 'datatypes', 'errors', 'classification', 'batching', 'metrics']
  .concat(['versions', 'aio'])
  .map((name) => join(SUITE, `test_${name}.py`));
const SKIPPED = ['grpc', 'load', 'control', 'shm', 'perf'].map((name) => `--skip-${name}`);

let folder = '';
let serve: MillraceProcess;

beforeAll(async () => {
  if (!existsSync(SUITE)) throw new Error(`the conformance suite is missing: expected in ${SUITE}`);
  folder = await mkdtemp(join(tmpdir(), 'millrace-conformance-'));
  const repository = join(folder, 'models');
  await mkdir(repository);
  for (const name of readdirSync(join(SUITE, 'models'))) {
    if (![...LEFT_OUT, ...NOT_YET].includes(name)) {
      await symlink(join(SUITE, 'models', name), join(repository, name));
    }
  }
  serve = await startMillrace(['serve', `--model-repository=${repository}`, '--log-info=false']);
});
afterAll(async () => {
  await serve.stop();
  await rm(folder, { recursive: true, force: true });
});

/**
 * The list grows with the product: `UPDATE_CONFORMANCE=1` adds what passes now. A line that goes away is a promise that
 * was taken back.
 */
test('the conformance tests of the list pass', async () => {
  const python = await pythonWithClients();
  const passesFile = join(folder, 'passes.txt');
  const ports = ['--http', new URL(serve.url).host, '--metrics', new URL(serve.metricsUrl).host];
  const args = ['-m', 'pytest', '-q', '--tb=short', '-p', 'record_passes', ...FILES, ...SKIPPED, ...ports];
  const { text } = await run(python, args, {
    env: { PASSES_FILE: passesFile, PYTHONPATH: join(ROOT, 'test', 'clients'), PYTHONDONTWRITEBYTECODE: '1' },
    timeoutMs: 570_000,
    cwd: folder,
  });
  if (!existsSync(passesFile)) throw new Error(`pytest did not get to its end\n${text}`);
  const passed = readLines(passesFile);
  const promised = existsSync(LIST) ? readLines(LIST) : new Set<string>();
  const broken = [...promised].filter((name) => !passed.has(name));
  expect(broken, text).toEqual([]);
  if (process.env['UPDATE_CONFORMANCE'] !== undefined) {
    await writeFile(LIST, `${[...new Set([...promised, ...passed])].sort().join('\n')}\n`);
  }
}, 600_000);

function readLines(file: string): Set<string> {
  return new Set(
    readFileSync(file, 'utf8')
      .split('\n')
      .filter((line) => line !== ''),
  );
}
