import { describe, expect, it } from 'vitest';
import { BATCHING_REPORT } from '../../../fixtures/batching-report.ts';
import { InferError } from '../../../../shared/errors.ts';
import { ModelStats } from '../../../../shared/infer/model-stats.ts';
import { parseModelConfig } from '../../../../shared/model/parse-config.ts';
import { silentLogger } from '../../../../shared/runtime/logger.ts';
import { startMetricsServer } from '../../../../shared/runtime/metrics-server.ts';
import { createMetricsRegistry } from '../../../../shared/runtime/metrics.ts';

const scrape = (stats: ModelStats[], pending = 0, histogramLatencies = false) =>
  createMetricsRegistry({ stats: () => stats, pending: () => pending }, { histogramLatencies }).metrics();

/** Statistics of the model m, whose config says `text`. */
function statsWith(text: string): ModelStats {
  const stats = new ModelStats('m', '1');
  stats.describe(parseModelConfig(text, 'config.pbtxt'));
  return stats;
}

const timings = (batchSize: number) =>
  ({
    queueUs: 1.5,
    computeInputUs: 2,
    computeInferUs: 3,
    computeOutputUs: 4,
    batchSize,
    executions: 1,
    release: 'delay',
  }) as const;

describe('createMetricsRegistry', () => {
  it('has every series of a model at 0 before its first request', async () => {
    const text = await scrape([new ModelStats('m', '1')]);
    const plain = [
      'request_success',
      'count',
      'exec_count',
      'request_duration_us',
      'queue_duration_us',
      'compute_input_duration_us',
      'compute_infer_duration_us',
      'compute_output_duration_us',
      'pending_request_count',
    ];
    for (const name of plain) expect(text).toContain(`\nnv_inference_${name}{model="m",version="1"} 0\n`);
    for (const reason of ['REJECTED', 'CANCELED', 'BACKEND', 'OTHER']) {
      expect(text).toContain(`\nnv_inference_request_failure{model="m",reason="${reason}",version="1"} 0\n`);
    }
    expect(text).toContain('\nnv_model_load_duration_secs{model="m",version="1"} 0\n');
    expect(text).toContain('\nmillrace_batch_size_bucket{le="+Inf",model="m",version="1"} 0\n');
    expect(text).toContain('\nmillrace_batch_release_total{model="m",reason="full",version="1"} 0\n');
  });

  it('shows the batch curve, the limits that hold and the company difference of models that batch', async () => {
    const stats = statsWith('metric_tags { key: "team" value: "a" }');
    const plain = await scrape([stats]);
    expect(plain).not.toContain('millrace_batch_curve_ms{');
    expect(plain).not.toContain('millrace_batch_max_rows{');
    expect(plain).not.toContain('millrace_batch_memory_rows{');
    stats.memoryRows = 4;
    stats.batching = BATCHING_REPORT;
    const text = await scrape([stats]);
    for (const line of [
      'millrace_batch_curve_ms{_team="a",model="m",rows="1",version="1"} 2',
      'millrace_batch_curve_ms{_team="a",model="m",rows="2",version="1"} 2.5',
      'millrace_batch_max_rows{_team="a",model="m",version="1"} 8',
      'millrace_batch_delay_ms{_team="a",model="m",version="1"} 1.5',
      'millrace_batch_company_difference{_team="a",model="m",version="1"} 0.1',
      'millrace_batch_memory_rows{_team="a",model="m",version="1"} 4',
    ]) {
      expect(text).toContain(`\n${line}\n`);
    }
    stats.batching = { ...stats.batching, merges: false, company: undefined };
    const alone = await scrape([stats]);
    expect(alone).toContain('\nmillrace_batch_max_rows{_team="a",model="m",version="1"} 1\n');
    expect(alone).not.toContain('millrace_batch_company_difference{');
  });

  it('shows what happened', async () => {
    const stats = new ModelStats('m', '1');
    stats.recordSuccess(3, 50, timings(3));
    stats.recordSuccess(1, 50, timings(1));
    stats.recordFailure(new InferError('CANCELLED', ''));
    const text = await scrape([stats], 7);
    for (const line of [
      'nv_inference_request_success{model="m",version="1"} 2',
      'nv_inference_request_failure{model="m",reason="CANCELED",version="1"} 1',
      'nv_inference_count{model="m",version="1"} 4',
      'nv_inference_exec_count{model="m",version="1"} 2',
      'nv_inference_queue_duration_us{model="m",version="1"} 3',
      'nv_inference_pending_request_count{model="m",version="1"} 7',
      'millrace_batch_size_bucket{le="1",model="m",version="1"} 1',
      'millrace_batch_size_bucket{le="4",model="m",version="1"} 2',
      'millrace_batch_size_sum{model="m",version="1"} 4',
      'millrace_batch_size_count{model="m",version="1"} 2',
      'millrace_batch_release_total{model="m",reason="delay",version="1"} 2',
    ]) {
      expect(text).toContain(`\n${line}\n`);
    }
    expect(text).toContain('# TYPE nv_inference_count counter');
    expect(text).toContain('# TYPE millrace_batch_size histogram');
  });

  it('counts padding of models that ask for it, and of no others', async () => {
    const padded = statsWith('parameters { key: "padding.inputs" value { string_value: "x=0" } }');
    expect(await scrape([padded])).toContain('\nmillrace_padded_elements_total{model="m",version="1"} 0\n');
    padded.recordSuccess(1, 50, { ...timings(2), elements: 64, paddedElements: 12 });
    padded.recordSuccess(1, 50, { ...timings(2), executions: 0, elements: 64, paddedElements: 12 });
    const text = await scrape([padded]);
    expect(text).toContain('\nmillrace_batch_elements_total{model="m",version="1"} 64\n');
    expect(text).toContain('\nmillrace_padded_elements_total{model="m",version="1"} 12\n');
    expect(await scrape([statsWith('')])).not.toMatch(/^millrace_(batch|padded)_elements_total\{/m);
  });

  it('escapes what model names may hold', async () => {
    const text = await scrape([new ModelStats('a"b\\c\nd', '1')]);
    expect(text).toContain('nv_inference_count{model="a\\"b\\\\c\\nd",version="1"} 0');
  });

  it('puts the tags of a model into the labels of all its metrics', async () => {
    const stats = statsWith('metric_tags [ { key: "team" value: "x" }, { key: "stage" value: "test" } ]');
    stats.recordSuccess(1, 50, timings(1));
    const text = await scrape([stats], 0, true);
    const tags = '_stage="test",_team="x"';
    for (const line of [
      `nv_inference_request_success{${tags},model="m",version="1"} 1`,
      `nv_inference_request_failure{${tags},model="m",reason="OTHER",version="1"} 0`,
      `nv_inference_pending_request_count{${tags},model="m",version="1"} 0`,
      `millrace_batch_size_bucket{${tags},le="+Inf",model="m",version="1"} 1`,
      `millrace_batch_release_total{${tags},model="m",reason="delay",version="1"} 1`,
      `nv_inference_first_response_histogram_ms_count{${tags},model="m",version="1"} 1`,
    ]) {
      expect(text).toContain(`\n${line}\n`);
    }
  });

  it('shows how long first responses took where that is asked for, with the bounds of the model', async () => {
    const family = 'nv_inference_first_response_histogram_ms';
    const stats = statsWith(`model_metrics { metric_control { metric_identifier { family: "${family}" }
      histogram_options { buckets: [ 1, 20 ] } } }`);
    for (const ms of [0.5, 2, 3, 30]) stats.recordSuccess(1, ms * 1000, timings(1));
    expect(await scrape([stats])).not.toContain(family);
    const text = await scrape([stats], 0, true);
    for (const line of [
      `# TYPE ${family} histogram`,
      `${family}_bucket{le="1",model="m",version="1"} 1`,
      `${family}_bucket{le="20",model="m",version="1"} 3`,
      `${family}_bucket{le="+Inf",model="m",version="1"} 4`,
      `${family}_sum{model="m",version="1"} 35.5`,
      `${family}_count{model="m",version="1"} 4`,
    ]) {
      expect(text).toContain(`\n${line}\n`);
    }
    stats.describe(parseModelConfig('', 'config.pbtxt'));
    expect(await scrape([stats], 0, true)).toContain(`\n${family}_bucket{le="5000",model="m",version="1"} 0\n`);
  });

  it('has the metrics of the process', async () => {
    expect(await scrape([])).toContain('process_resident_memory_bytes');
  });
});

describe('startMetricsServer', () => {
  async function withServer(registry: { metrics(): Promise<string> }, use: (url: string) => Promise<void>) {
    const server = await startMetricsServer({ registry, host: '127.0.0.1', port: 0, logger: silentLogger });
    try {
      await use(`http://127.0.0.1:${server.port}`);
    } finally {
      await server.close();
    }
  }

  it('serves the text at /metrics', async () => {
    await withServer({ metrics: () => Promise.resolve('up 1\n') }, async (url) => {
      const response = await fetch(`${url}/metrics`);
      expect(response.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
      expect(await response.text()).toBe('up 1\n');
    });
  });

  it('answers anything else with 404 and other methods with 405, as JSON', async () => {
    await withServer({ metrics: () => Promise.resolve('') }, async (url) => {
      const [other, post] = [await fetch(url), await fetch(`${url}/metrics`, { method: 'POST' })];
      expect([other.status, post.status]).toEqual([404, 405]);
      expect(await other.json()).toHaveProperty('error');
      expect(await post.json()).toHaveProperty('error');
    });
  });

  it('answers 500 without the reason when the metrics fail', async () => {
    await withServer({ metrics: () => Promise.reject(new Error('secret')) }, async (url) => {
      const response = await fetch(`${url}/metrics`);
      expect(response.status).toBe(500);
      expect(await response.text()).not.toContain('secret');
    });
  });

  it('fails when the port is taken', async () => {
    await withServer({ metrics: () => Promise.resolve('') }, async (url) => {
      const port = Number(new URL(url).port);
      const second = startMetricsServer({
        registry: { metrics: () => Promise.resolve('') },
        host: '127.0.0.1',
        port,
        logger: silentLogger,
      });
      await expect(second).rejects.toMatchObject({ code: 'EADDRINUSE' });
    });
  });
});
