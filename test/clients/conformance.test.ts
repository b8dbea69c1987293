import { readFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { CONFORMANCE_MODELS, conformanceFiles, findPerfAnalyzer, runConformance } from '../support/conformance.ts';
import { ROOT } from '../support/process.ts';
import { type Serving, startServer } from '../support/serving.ts';

const LIST = join(ROOT, 'test', 'clients', 'conformance-passes.txt');
const REPORTS = join(ROOT, '.cache', 'conformance');
const RUN_TIMEOUT_MS = 570_000;

/** What stands before the id of a test that passes with one of the two only. */
const ONLY: Readonly<Record<Serving, string>> = { serve: 'serve only: ', pool: 'pool only: ' };

/**
 * These count exactly which requests share an execution, or wait for a busy instance. That is up to one engine: two workers
 * share the requests before either forms a batch, so that eight requests of one row may run as 7 + 1, and the request
 * that is to wait behind another runs beside it. So they run with one worker.
 */
const ONE_ENGINE = [
  'test_batching.py',
  'test_aio.py::test_dynamic_batching',
  'test_infer_grpc.py::test_cancelled_requests_in_the_queue_do_not_run',
  'test_infer_http.py::test_requests_of_a_client_that_hung_up_do_not_run',
  'test_metrics.py::test_batched_requests',
  'test_metrics.py::test_cancelled',
  'test_metrics.py::test_rejected_by_timeout',
  'test_statistics.py::test_batched_requests_each_count',
  'test_statistics.py::test_requests_that_time_out_in_the_queue_fail',
  'test_statistics.py::test_time_of_a_batch_counts_for_each_request',
];

interface Run {
  readonly name: string;
  readonly serving: Serving;
  readonly workers: number;
  readonly has: (id: string) => boolean;
  /** What pytest is told to run. */
  readonly tests: readonly string[];
  readonly deselected: readonly string[];
}

const needsOneEngine = (id: string) => ONE_ENGINE.some((start) => id.startsWith(start));
const all = conformanceFiles();
const RUNS: readonly Run[] = [
  { name: 'serve', serving: 'serve', workers: 0, has: () => true, tests: all, deselected: [] },
  {
    name: 'a producer with two workers',
    serving: 'pool',
    workers: 2,
    has: (id) => !needsOneEngine(id),
    tests: all,
    deselected: ONE_ENGINE,
  },
  {
    name: 'a producer with one worker',
    serving: 'pool',
    workers: 1,
    has: needsOneEngine,
    tests: ONE_ENGINE,
    deselected: [],
  },
];

let folder = '';
let perfAnalyzer: string | undefined;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'millrace-conformance-'));
  const found = await findPerfAnalyzer();
  if ('program' in found) perfAnalyzer = found.program;
  else console.warn(`the tests with perf_analyzer are skipped, it cannot be fetched here: ${found.reason}`);
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const promised = readList();
const passed: Record<Serving, Set<string>> = { serve: new Set(), pool: new Set() };

/**
 * The list grows with the product: `UPDATE_CONFORMANCE=1` adds what passes now. A line that goes away is a promise that
 * was taken back.
 */
test.concurrent.each(RUNS)(
  'the conformance tests of the list pass with $name',
  async ({ name, serving, workers, has, tests, deselected }) => {
    const options = [`--model-repository=${CONFORMANCE_MODELS}`, '--model-control-mode=explicit'];
    const server = await startServer(serving, options, workers);
    try {
      const results = await runConformance(server, tests, {
        deselected,
        folder: join(folder, name),
        timeoutMs: RUN_TIMEOUT_MS,
        ...(perfAnalyzer === undefined ? {} : { perfAnalyzer }),
      });
      await keepReport(name, results.text);
      for (const id of results.passed) passed[serving].add(id);
      const wanted = promised[serving].filter(
        (id) => has(id) && (perfAnalyzer !== undefined || !id.startsWith('test_perf_analyzer.py')),
      );
      expect(
        wanted.filter((id) => !results.passed.includes(id)),
        results.text,
      ).toEqual([]);
      expect(results.warned, results.text).toEqual([]);
    } finally {
      await server.stop();
    }
  },
  RUN_TIMEOUT_MS + 120_000,
);

test.runIf(process.env['UPDATE_CONFORMANCE'])('the list is written', async () => {
  const serve = new Set([...promised.serve, ...passed.serve]);
  const pool = new Set([...promised.pool, ...passed.pool]);
  const lines = [...new Set([...serve, ...pool])].sort().map((id) => {
    if (!pool.has(id)) return `${ONLY.serve}${id}`;
    return serve.has(id) ? id : `${ONLY.pool}${id}`;
  });
  await writeFile(LIST, `${lines.join('\n')}\n`);
});

/** What pytest said, for those who look for the tests that do not pass yet. */
async function keepReport(name: string, text: string): Promise<void> {
  await mkdir(REPORTS, { recursive: true });
  await writeFile(join(REPORTS, `${name.replaceAll(' ', '-')}.txt`), text);
}

function readList(): Record<Serving, readonly string[]> {
  const lines = readFileSync(LIST, 'utf8')
    .split('\n')
    .filter((line) => line !== '');
  const idsOf = (serving: Serving, other: Serving) =>
    lines.filter((line) => !line.startsWith(ONLY[other])).map((line) => line.replace(ONLY[serving], ''));
  return { serve: idsOf('serve', 'pool'), pool: idsOf('pool', 'serve') };
}
