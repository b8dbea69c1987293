// The same models through `serve`, and through the queue: rows a second beside those of the bare session.
import { mkdirSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { startMillrace, startRedis } from './children.mjs';
import { applyLoad } from './load.mjs';
import { QUICK } from './parts.mjs';
import { rounded, textOf } from './report.mjs';
import { inputOf, MODELS, shapeOf, temporary, writeModel } from './sessions.mjs';

const MANY = 64;
const WINDOW = QUICK ? { warmMs: 300, forMs: 500 } : { warmMs: 1500, forMs: 4000 };
/** Clients of the largest batches: while one is computed others are on their way. */
const BEST_CLIENTS = 6;
const best = JSON.parse(process.env.MILLRACE_GPU_CHECK_BEST ?? '{}');

export async function measureServe(report) {
  await eachModel(report, async (name, found) => {
    const server = await startMillrace(['serve', `--model-repository=${repositoryOf(name, 1)}`, '--log-info=false']);
    found.note('readyMs', rounded(server.readyMs));
    await measureLoads(name, [server.url], found);
    await found.attempt('gpuMetrics', () => gpuMetrics(server.metricsUrl));
    await found.attempt('pool', () => poolDevices(server.url));
    found.note('exit', await server.stop());
    await found.attempt('twoInstances', async () => {
      const two = await startMillrace(['serve', `--model-repository=${repositoryOf(name, 2)}`, '--log-info=false']);
      const load = await loadOf(name, bestRows(name), BEST_CLIENTS, [two.url]);
      await two.stop();
      return { ...load, shareOfBare: shareOf(name, load) };
    });
  });
}

export async function measureQueue(report) {
  const redis = await startRedis();
  const producers = availableParallelism() >= 8 ? 3 : 1;
  report.note('producers', producers);
  await eachModel(report, async (name, found) => {
    const worker = await startMillrace([
      'worker',
      `--redis=${redis.url}`,
      `--model-repository=${repositoryOf(name, 1)}`,
      '--log-info=false',
    ]);
    found.note('readyMs', rounded(worker.readyMs));
    const fronts = [];
    for (let index = 0; index < producers; index += 1) {
      fronts.push(await startMillrace(['producer', `--redis=${redis.url}`, '--log-info=false']));
    }
    const urls = fronts.map(({ url }) => url);
    await Promise.all(urls.map((url) => untilReady(url, name)));
    await measureLoads(name, urls, found);
    await found.attempt('pool', () => poolDevices(urls[0]));
    for (const one of [...fronts, worker]) await one.stop();
  });
  await redis.stop();
}

/** One model failing leaves the other. */
async function eachModel(report, measure) {
  const failed = [];
  for (const name of Object.keys(MODELS)) {
    const found = report.section(name);
    try {
      await measure(name, found);
    } catch (error) {
      found.note('error', textOf(error));
      failed.push(`${name}: ${textOf(error)}`);
    }
  }
  if (failed.length > 0) throw new Error(failed.join('; '));
}

async function measureLoads(name, urls, found) {
  const one = await loadOf(name, 1, 1, urls);
  found.note('oneClient', one);
  const many = await loadOf(name, 1, MANY, urls);
  const bare = best[name]?.batch1RowsPerSecond;
  found.note('manyClients', {
    ...many,
    timesOneClient: one.rowsPerSecond > 0 ? rounded(many.rowsPerSecond / one.rowsPerSecond) : null,
    timesBareBatch1: bare > 0 ? rounded(many.rowsPerSecond / bare) : null,
    shareOfBare: shareOf(name, many),
  });
  const full = await loadOf(name, bestRows(name), BEST_CLIENTS, urls);
  found.note('bestBatch', { ...full, shareOfBare: shareOf(name, full) });
}

function bestRows(name) {
  return best[name]?.rows ?? (QUICK ? 4 : 32);
}

/** Of what the bare session did at its best batch; null where that is not known. */
function shareOf(name, { rowsPerSecond }) {
  return best[name] ? rounded(rowsPerSecond / best[name].rowsPerSecond) : null;
}

function loadOf(name, rows, clients, urls) {
  const shape = shapeOf(name, rows);
  const data = inputOf(shape);
  const input = { name: 'x', datatype: 'FP32', shape, parameters: { binary_data_size: data.length } };
  const outputs = [{ name: 'y', parameters: { binary_data: true } }];
  const json = Buffer.from(JSON.stringify({ inputs: [input], outputs }));
  const file = join(temporary, `${name}-${rows}.body`);
  writeFileSync(file, Buffer.concat([json, data]));
  const path = `/v2/models/${name}/infer`;
  return applyLoad({ urls, path, file, jsonLength: json.length, rows, clients, ...WINDOW });
}

/** A folder with the one model on the GPU. */
function repositoryOf(name, count) {
  const repository = join(temporary, `${name}-${count}`);
  mkdirSync(join(repository, name, '1'), { recursive: true });
  writeModel(name, join(repository, name, '1', 'model.onnx'));
  const group = `instance_group { kind: KIND_GPU gpus: [ 0 ] count: ${count} }`;
  const batching = 'max_batch_size: 64 dynamic_batching { max_queue_delay_microseconds: 500 }';
  const only = 'parameters { key: "gpu_only" value { string_value: "1" } }';
  writeFileSync(join(repository, name, 'config.pbtxt'), `${batching}\n${group}\n${only}\n`);
  return repository;
}

async function untilReady(url, model) {
  const endsMs = performance.now() + 20_000;
  while (performance.now() < endsMs) {
    const { ok } = await fetch(`${url}/v2/models/${model}/ready`);
    if (ok) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`${model} is not ready at the producer`);
}

async function gpuMetrics(url) {
  const text = await (await fetch(url)).text();
  return text.split('\n').filter((line) => /^(?:nv_gpu|millrace_gpu)/.test(line));
}

async function poolDevices(url) {
  const { workers } = await (await fetch(`${url}/pool`)).json();
  return workers.map(({ devices }) => devices);
}
