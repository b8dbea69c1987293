import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { makeFixtureModel } from '../fixtures/make-models.ts';
import { until } from '../support/redis.ts';
import { scrape } from '../support/scrape.ts';
import { type Server, type Serving, startServer } from '../support/serving.ts';

const FAMILY = 'nv_inference_first_response_histogram_ms';

const CONFIG = `max_batch_size: 8
input { name: "x" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "y" data_type: TYPE_FP32 dims: [ -1 ] }
instance_group { count: 2 rate_limiter { priority: 2 resources { name: "R" count: 1 } } }
metric_tags { key: "team" value: "search" }
model_metrics { metric_control { metric_identifier { family: "${FAMILY}" } histogram_options { buckets: [ 60000 ] } } }
model_warmup { name: "w" batch_size: 2 count: 3
  inputs { key: "x" value { data_type: TYPE_FP32 dims: [ 2 ] zero_data: true } } }
parameters { key: "memory.enable_memory_arena_shrinkage" value { string_value: "cpu:0" } }
`;

const OPTIONS = [
  '--metrics-config=histogram_latencies=true',
  '--backend-config=onnxruntime,enable-global-threadpool=1',
  '--backend-config=onnxruntime,intra_op_thread_count=2',
  '--rate-limit=execution_count',
  '--rate-limit-resource=R:1',
];

describe.each(['serve', 'pool'] as const satisfies readonly Serving[])('settings of a model, %s', (serving) => {
  let folder = '';
  let server: Server;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'millrace-e2e-'));
    makeFixtureModel(join(folder, 'm'), 'id_f32', CONFIG);
    server = await startServer(serving, [`--model-repository=${folder}`, ...OPTIONS], 1);
  });
  afterAll(async () => {
    await server.stop();
    await rm(folder, { recursive: true, force: true });
  });

  const ask = async (value: number): Promise<number[]> => {
    const inputs = [{ name: 'x', datatype: 'FP32', shape: [1, 2], data: [value, -value] }];
    const response = await fetch(`${server.url}/v2/models/m/infer`, {
      method: 'POST',
      body: JSON.stringify({ inputs }),
    });
    const { outputs } = (await response.json()) as { outputs: { data: number[] }[] };
    return outputs[0]!.data;
  };

  test('label its metrics, and count nothing of its warm-up', async () => {
    const labels = '{_team="search",model="m",version="1"}';
    const before = await scrape(server.metricsUrl);
    expect(before.get(`nv_inference_exec_count${labels}`)).toBe(0);
    expect(before.get(`${FAMILY}_count${labels}`)).toBe(0);
    const values = Array.from({ length: 20 }, (_, i) => i + 1);
    expect(await Promise.all(values.map(ask))).toEqual(values.map((value) => [value, -value]));
    await until('all are counted', async () => {
      const after = await scrape(server.metricsUrl);
      return after.get(`nv_inference_request_success${labels}`) === 20;
    });
    const after = await scrape(server.metricsUrl);
    expect(after.get(`${FAMILY}_bucket{_team="search",le="60000",model="m",version="1"}`)).toBe(20);
    expect(after.get(`${FAMILY}_bucket{_team="search",le="+Inf",model="m",version="1"}`)).toBe(20);
  });

  test('are part of its config', async () => {
    const config = (await (await fetch(`${server.url}/v2/models/m/config`)).json()) as Record<string, unknown>;
    expect(config).toMatchObject({
      metric_tags: { team: 'search' },
      model_warmup: [
        {
          name: 'w',
          batch_size: 2,
          count: 3,
          inputs: { x: { data_type: 'TYPE_FP32', dims: [2], zero_data: true } },
        },
      ],
      instance_group: [
        { passive: false, rate_limiter: { priority: 2, resources: [{ name: 'R', global: false, count: 1 }] } },
      ],
      model_metrics: {
        metric_control: [{ metric_identifier: { family: FAMILY }, histogram_options: { buckets: [60000] } }],
      },
    });
  });
});
