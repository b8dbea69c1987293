import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { writeAddModel } from '../support/add-model.ts';
import { runMillrace, startMillrace } from '../support/process.ts';
import { startServer } from '../support/serving.ts';

let folder = '';

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'millrace-cache-'));
  writeAddModel(join(folder, 'm'), [1], 'response_cache { enable: true }');
  writeAddModel(join(folder, 'plain'), [1]);
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const PORTS = ['--http-port=0', '--grpc-port=0', '--metrics-port=0', '--log-info=false'];

async function ask(url: string, id: string, model = 'm'): Promise<string> {
  const body = JSON.stringify({ id, inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 2], data: [1, 2] }] });
  return (await fetch(`${url}/v2/models/${model}/infer`, { method: 'POST', body })).text();
}

test.each([
  ['serve', '--cache-config=local,size=1000000'],
  ['pool', '--cache-config=local,size=1000000'],
  ['pool', '--cache-config=redis'],
] as const)('%s with %s answers from the cache and counts it as Triton does', async (serving, option) => {
  const server = await startServer(serving, [`--model-repository=${folder}`, option, ...PORTS], 1);
  try {
    expect(await ask(server.url, 'a')).toBe(
      '{"id":"a","model_name":"m","model_version":"1","outputs":[{"name":"y","datatype":"FP32","shape":[1,2],"data":[2,3]}]}',
    );
    for (let i = 0; i < 20; i += 1) await ask(server.url, 'a');
    expect(await ask(server.url, 'b')).toBe((await ask(server.url, 'a')).replace('"a"', '"b"'));
    await ask(server.url, 'a', 'plain');
    const stats = (await (await fetch(`${server.url}/v2/models/m/stats`)).json()) as {
      model_stats: {
        inference_count: number;
        execution_count: number;
        inference_stats: Record<string, { count: number }>;
      }[];
    };
    const { inference_count: inferences, inference_stats: counts } = stats.model_stats[0]!;
    const countOf = (name: string) => counts[name]!.count;
    // Redis may take a moment to keep the first answer.
    expect(countOf('cache_hit')).toBeGreaterThan(10);
    expect(countOf('cache_hit') + countOf('cache_miss')).toBe(23);
    expect([countOf('success'), countOf('queue')]).toEqual([23, 23]);
    expect([inferences, countOf('compute_infer')]).toEqual([countOf('cache_miss'), countOf('cache_miss')]);
    const page = await (await fetch(server.metricsUrl)).text();
    expect(page).toContain(`nv_cache_num_hits_per_model{model="m",version="1"} ${countOf('cache_hit')}`);
    expect(page).toContain(`nv_cache_num_misses_per_model{model="m",version="1"} ${countOf('cache_miss')}`);
    expect(page).toMatch(/nv_cache_hit_duration_per_model\{model="m",version="1"\} [1-9]/);
    expect(page).toMatch(/nv_cache_miss_duration_per_model\{model="m",version="1"\} [1-9]/);
    expect(page).not.toContain('nv_cache_num_hits_per_model{model="plain"');
  } finally {
    await server.stop();
  }
});

test('without --cache-config nothing is kept, and no metric says otherwise', async () => {
  const server = await startMillrace(['serve', `--model-repository=${folder}`, ...PORTS]);
  try {
    await ask(server.url, 'a');
    await ask(server.url, 'a');
    const page = await (await fetch(server.metricsUrl)).text();
    expect(page).toContain('nv_inference_exec_count{model="m",version="1"} 2');
    expect(page).not.toContain('cache');
    const warnings = server.stderr().match(/response_cache does nothing without --cache-config/g);
    expect(warnings).toHaveLength(1);
  } finally {
    await server.stop();
  }
});

test('a mistake in --cache-config ends the start with one line', async () => {
  const { code, stderr } = await runMillrace(['serve', `--model-repository=${folder}`, '--cache-config=local,sise=1']);
  expect(stderr).toMatch(/^millrace: --cache-config: local has no key "sise", .* did you mean size\?\n$/);
  expect(code).toBe(2);
});
