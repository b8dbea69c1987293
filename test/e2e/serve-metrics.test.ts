import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { makeFixtureRepository } from '../fixtures/make-models.ts';
import { makeOneInstanceSlow } from '../support/slow-model.ts';
import { type MillraceProcess, startMillrace } from '../support/process.ts';
import { until } from '../support/redis.ts';
import { scrape } from '../support/scrape.ts';

const MODELS = ['rowsum', 'div_int', 'slow'];
const COUNTERS = [
  'nv_inference_request_success',
  'nv_inference_count',
  'nv_inference_exec_count',
  'nv_inference_request_duration_us',
  'nv_inference_queue_duration_us',
  'nv_inference_compute_input_duration_us',
  'nv_inference_compute_infer_duration_us',
  'nv_inference_compute_output_duration_us',
  'nv_inference_pending_request_count',
];

describe('the metrics of millrace serve', () => {
  let folder = '';
  let serve: MillraceProcess;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'millrace-e2e-'));
    makeFixtureRepository(folder, MODELS);
    makeOneInstanceSlow(folder);
    serve = await startMillrace(['serve', `--model-repository=${folder}`, '--log-info=false']);
  });
  afterAll(async () => {
    await serve.stop();
    await rm(folder, { recursive: true, force: true });
  });

  const value = async (name: string, model: string, more = ''): Promise<number> => {
    const series = `${name}{model="${model}",${more}version="1"}`;
    const found = (await scrape(serve.metricsUrl)).get(series);
    if (found === undefined) throw new Error(`no series ${series}`);
    return found;
  };
  const infer = (model: string, datatype: string, shape: number[], data: number[]): Promise<Response> =>
    fetch(`${serve.url}/v2/models/${model}/infer`, {
      method: 'POST',
      body: JSON.stringify({ inputs: [{ name: 'x', datatype, shape, data }] }),
    });

  test('are there for every model at 0 before the first request', async () => {
    const samples = await scrape(serve.metricsUrl);
    for (const model of MODELS) {
      for (const name of COUNTERS) expect(samples.get(`${name}{model="${model}",version="1"}`), name).toBe(0);
      for (const reason of ['REJECTED', 'CANCELED', 'BACKEND', 'OTHER']) {
        const series = `nv_inference_request_failure{model="${model}",reason="${reason}",version="1"}`;
        expect(samples.get(series), series).toBe(0);
      }
      expect(samples.get(`millrace_batch_size_count{model="${model}",version="1"}`)).toBe(0);
    }
    const releases = [...samples].filter(([series]) => series.startsWith('millrace_batch_release_total{'));
    expect(releases.length).toBeGreaterThan(MODELS.length);
    expect(releases.every(([, count]) => count === 0)).toBe(true);
  });

  test('count requests, rows, executions and failures with Triton’s meaning', async () => {
    expect((await infer('rowsum', 'FP32', [1, 2], [1, 2])).status).toBe(200);
    expect((await infer('rowsum', 'FP32', [3, 2], [1, 2, 3, 4, 5, 6])).status).toBe(200);
    await until('both are counted', async () => (await value('nv_inference_request_success', 'rowsum')) === 2);
    expect(await value('nv_inference_count', 'rowsum')).toBe(4);
    expect(await value('nv_inference_exec_count', 'rowsum')).toBe(2);
    expect(await value('millrace_batch_size_sum', 'rowsum')).toBe(4);
    expect(await value('nv_inference_request_duration_us', 'rowsum')).toBeGreaterThan(0);
    expect(await value('nv_inference_compute_infer_duration_us', 'rowsum')).toBeGreaterThan(0);

    expect((await infer('div_int', 'INT64', [1, 1], [99])).ok).toBe(false);
    await until(
      'the failed run is counted',
      async () => (await value('nv_inference_request_failure', 'div_int', 'reason="BACKEND",')) === 1,
    );
    expect(await value('nv_inference_request_success', 'div_int')).toBe(0);
    expect(await value('nv_inference_request_success', 'slow')).toBe(0);
  });

  test('show how many requests wait, and 0 when all are answered', async () => {
    // Each fills a batch, and one instance runs them one after the other.
    const answers = [20, 21, 22].map((units) => infer('slow', 'INT64', [4, 1], [units, 1, 1, 1]));
    await until('two wait', async () => (await value('nv_inference_pending_request_count', 'slow')) === 2);
    for (const answer of answers) expect((await answer).status).toBe(200);
    expect(await value('nv_inference_pending_request_count', 'slow')).toBe(0);
    expect(await value('nv_inference_exec_count', 'slow')).toBe(3);
  });

  test('have no series for a name that only a client said', async () => {
    await infer('made_up_name', 'FP32', [1, 1], [1]);
    expect([...(await scrape(serve.metricsUrl)).keys()].join('\n')).not.toContain('made_up_name');
  });

  test('are at /metrics alone', async () => {
    const { origin } = new URL(serve.metricsUrl);
    expect(serve.metricsUrl).toBe(`${origin}/metrics`);
    expect((await fetch(`${origin}/`)).status).toBe(404);
    expect((await fetch(serve.metricsUrl)).headers.get('content-type')).toMatch(/^text\/plain; version=0\.0\.4/);
  });
});
