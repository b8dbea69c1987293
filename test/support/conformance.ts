import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { ROOT } from './process.ts';
import { pythonWithClients, run } from './python.ts';
import type { Server } from './serving.ts';

const SUITE = join(ROOT, '..', 'shared', 'conformance');
const INI = join(SUITE, 'pytest.ini');
const PERF_ANALYZER = join(ROOT, '.cache', 'perf-analyzer');

/** The models of the suite, which loads them itself; nothing is written there. */
export const CONFORMANCE_MODELS = join(SUITE, 'models');

export interface ConformanceResults {
  /** Ids of tests, as `test_file.py::test_name[parameters]`. */
  readonly passed: readonly string[];
  /** Those where the server gave Triton's answer and a better one is asked for. */
  readonly warned: readonly string[];
  /** What pytest printed. */
  readonly text: string;
}

/** Names of the suite's files. */
export function conformanceFiles(): string[] {
  if (!existsSync(SUITE)) throw new Error(`the conformance suite is missing: expected in ${SUITE}`);
  return readdirSync(SUITE).filter((name) => /^test_.*\.py$/.test(name));
}

/** perf_analyzer, fetched once; or why it is not there. */
export async function findPerfAnalyzer(): Promise<{ program: string } | { reason: string }> {
  const program = join(PERF_ANALYZER, 'perf_analyzer');
  const works = async () => existsSync(program) && (await run(program, ['--version'])).code === 0;
  if (await works()) return { program };
  const python = await pythonWithClients();
  const path = `${join(python, '..')}:${process.env['PATH'] ?? ''}`;
  const fetchIt = () =>
    run('sh', [join(SUITE, 'get_perf_analyzer.sh'), PERF_ANALYZER], { env: { PATH: path }, timeoutMs: 300_000 });
  const first = await fetchIt();
  if (await works()) return { program };
  // It installs a library where it may, and that fails where the lists of packages are old or missing.
  if (process.getuid?.() !== 0 || !existsSync('/etc/debian_version')) return { reason: first.text.trim() };
  await run('apt-get', ['update', '-qq'], { timeoutMs: 300_000 });
  const { text } = await fetchIt();
  return (await works()) ? { program } : { reason: text.trim() };
}

/**
 * Runs files, or single tests (`test_file.py::test_name`), of the suite against a server that nothing else uses.
 * @param folder an empty one, for what the run leaves behind.
 */
export async function runConformance(
  server: Server,
  tests: readonly string[],
  options: {
    readonly deselected?: readonly string[];
    readonly folder: string;
    readonly perfAnalyzer?: string;
    readonly timeoutMs: number;
  },
): Promise<ConformanceResults> {
  const { deselected = [], folder, perfAnalyzer, timeoutMs } = options;
  const resultsFile = join(folder, 'results.json');
  await mkdir(folder, { recursive: true });
  const addresses = ['--http', new URL(server.url).host, '--metrics', new URL(server.metricsUrl).host];
  const grpc = server.grpcAddress === '' ? ['--skip-grpc'] : ['--grpc', server.grpcAddress];
  const perf = perfAnalyzer === undefined ? ['--skip-perf'] : ['--perf-analyzer', perfAnalyzer];
  const args = ['-m', 'pytest', '-q', '--tb=short', '-p', 'record_passes', '--rootdir', SUITE, '-c', INI]
    .concat(tests.map((name) => join(SUITE, name)))
    .concat(deselected.map((name) => `--deselect=${name}`))
    .concat(addresses, grpc, perf);
  const { text } = await run(await pythonWithClients(), args, {
    env: { RESULTS_FILE: resultsFile, PYTHONPATH: join(ROOT, 'test', 'clients'), PYTHONDONTWRITEBYTECODE: '1' },
    timeoutMs,
    cwd: folder,
  });
  if (!existsSync(resultsFile)) throw new Error(`pytest did not get to its end\n${text}`);
  // Written by record_passes.py.
  const results = JSON.parse(readFileSync(resultsFile, 'utf8')) as Omit<ConformanceResults, 'text'>;
  return { ...results, text };
}
