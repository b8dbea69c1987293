// A model in a bare session: agreement with the CPU, the curve of its batches, first runs, memory, and options.
import { readdirSync, readFileSync, realpathSync } from 'node:fs';
import { basename } from 'node:path';
import { dist } from './places.mjs';
import { QUICK } from './parts.mjs';
import { median, rounded, textOf } from './report.mjs';
import { createBackend, GPU, inputOf, openModel, repeat, run, shapeOf, writeModel } from './sessions.mjs';

const { openCudaRuntime } = await import(dist('worker/engine/backend/onnx/gpu/cuda-runtime.js'));

const BATCHES = QUICK ? [1, 4] : [1, 2, 4, 8, 16, 32, 64];
const GPU_RUNS = QUICK ? { runs: 3, forMs: 500 } : { runs: 200, forMs: 1500 };
/** A batch is compared with the CPU while the one before took less than this. */
const CPU_LIMIT_MS = QUICK ? 1000 : 3000;
/** TF32 keeps three digits of a product; without it only the order of additions differs. */
const MAX_DIFFERENCE = { 1: 0.02, 0: 0.001 };
const SEARCHES = ['exhaustive', 'heuristic', 'default'];

export async function measureBare(name, report) {
  const path = writeModel(name);
  const backend = createBackend();
  await report.attempt('devices', () => backend.devices());
  const runtime = openCudaRuntime();
  const freeBefore = runtime.freeBytes(GPU);
  const startedMs = performance.now();
  const onGpu = await openModel(backend, path, { gpu_only: 1 });
  report.note('loadMs', rounded(performance.now() - startedMs));
  report.note('libraries', loadedLibraries());
  report.note('sessionBytes', freeBefore - runtime.freeBytes(GPU));
  const onCpu = await openModel(backend, path, undefined);
  const batches = {};
  let cpuMs = 0;
  for (const rows of BATCHES) {
    try {
      const compared = cpuMs < CPU_LIMIT_MS ? onCpu.instances[0] : undefined;
      batches[rows] = await measureBatch(onGpu.instances[0], compared, shapeOf(name, rows));
      cpuMs = batches[rows].cpuMs ?? Infinity;
    } catch (error) {
      batches[rows] = { error: textOf(error) };
    }
    report.note('batches', batches);
  }
  const best = bestOf(batches);
  report.note('best', best);
  report.note('bytesAfterBatches', freeBefore - runtime.freeBytes(GPU));
  await onCpu.close();
  await onGpu.close();
  report.note('bytesKeptAfterClose', freeBefore - runtime.freeBytes(GPU));
  if (!best) throw new Error(batches[BATCHES[0]]?.error ?? 'no batch could be run');
  await report.attempt('exact', () => withoutTf32(backend, name, path));
  await report.attempt('twoInstances', () => twoInstances(backend, name, path, best.rows));
  if (name === 'vision') await report.attempt('searches', () => compareSearches(backend, name, path, report));
  const wrong = Object.entries(batches).filter(([, { agrees }]) => agrees === false);
  if (wrong.length > 0) {
    throw new Error(`the answers of GPU and CPU differ at batches of ${wrong.map(([rows]) => rows).join(', ')} rows`);
  }
}

/** Which of CUDA's files this process has mapped, by their own names, with the packages that they came in. */
function loadedLibraries() {
  const lines = readFileSync('/proc/self/maps', 'utf8').split('\n');
  const paths = lines
    .map((line) => line.slice(line.indexOf('/')))
    .filter((path) => /\/lib(?:cu|nv)[^/]*\.so/.test(path));
  const files = [...new Set(paths)].map((path) => realpathSync(path));
  const sites = new Set(files.filter((path) => path.includes('/nvidia/')).map((path) => path.split('/nvidia/')[0]));
  const packages = [...sites].flatMap((site) => readdirSync(site).filter((name) => /^nvidia.*\.dist-info$/.test(name)));
  return [...files.map((path) => basename(path)), ...packages.map((name) => name.replace('.dist-info', ''))].sort();
}

async function measureBatch(onGpu, onCpu, shape) {
  const first = await run(onGpu, shape, inputOf(shape));
  const { times, values } = await repeat(onGpu, shape, GPU_RUNS);
  const gpuMs = median(times);
  const speed = {
    firstMs: rounded(first.ms),
    gpuMs: rounded(gpuMs),
    rowsPerSecond: rounded((shape[0] / gpuMs) * 1000),
  };
  if (!onCpu) return { ...speed, cpuMs: null };
  const cpu = await repeat(onCpu, shape, { runs: 3, forMs: 500 });
  return { ...speed, cpuMs: rounded(median(cpu.times)), ...agreement(values, cpu.values, MAX_DIFFERENCE[1]) };
}

function agreement(ours, theirs, limit) {
  let difference = 0;
  let largest = 0;
  for (const [index, value] of theirs.entries()) {
    difference = Math.max(difference, Math.abs(value - ours[index]));
    largest = Math.max(largest, Math.abs(value));
  }
  return { difference: rounded(difference), largest: rounded(largest), agrees: difference <= limit * largest };
}

function bestOf(batches) {
  const measured = Object.entries(batches).filter(([, { rowsPerSecond }]) => rowsPerSecond > 0);
  measured.sort(([, a], [, b]) => b.rowsPerSecond - a.rowsPerSecond);
  const [first] = measured;
  if (!first) return null;
  const single = batches[1]?.rowsPerSecond;
  const times = single > 0 ? rounded(first[1].rowsPerSecond / single) : null;
  return {
    rows: Number(first[0]),
    rowsPerSecond: first[1].rowsPerSecond,
    timesBatch1: times,
    batch1RowsPerSecond: single,
  };
}

/** Whether what differs from the CPU is TF32, which keeps less of each product. */
async function withoutTf32(backend, name, path) {
  const shape = shapeOf(name, 4);
  const onGpu = await openModel(backend, path, { use_tf32: 0 });
  const onCpu = await openModel(backend, path, undefined);
  try {
    const gpu = await repeat(onGpu.instances[0], shape, GPU_RUNS);
    const cpu = await repeat(onCpu.instances[0], shape, { runs: 1, forMs: 0 });
    return { gpuMs: rounded(median(gpu.times)), ...agreement(gpu.values, cpu.values, MAX_DIFFERENCE[0]) };
  } finally {
    await onGpu.close();
    await onCpu.close();
  }
}

/** Two sessions at once: what copying hides behind computing. */
async function twoInstances(backend, name, path, rows) {
  const shape = shapeOf(name, rows);
  const model = await openModel(backend, path, {}, 2);
  try {
    for (const instance of model.instances) await repeat(instance, shape, { runs: 3, forMs: 1000 });
    const startedMs = performance.now();
    const all = await Promise.all(model.instances.map((instance) => repeat(instance, shape, GPU_RUNS)));
    const runs = all.reduce((sum, { times }) => sum + times.length, 0);
    return { rows, rowsPerSecond: rounded((runs * rows * 1000) / (performance.now() - startedMs)) };
  } finally {
    await model.close();
  }
}

/** What each way to choose a convolution costs at first, and what it gives afterwards. */
async function compareSearches(backend, name, path, report) {
  const found = {};
  for (const [index, search] of SEARCHES.entries()) {
    const model = await openModel(backend, path, { cudnn_conv_algo_search: index });
    found[search] = {};
    for (const rows of BATCHES.filter((each) => [1, 4, 8, 64].includes(each))) {
      const shape = shapeOf(name, rows);
      const first = await run(model.instances[0], shape, inputOf(shape));
      const { times } = await repeat(model.instances[0], shape, { ...GPU_RUNS, forMs: 700 });
      found[search][rows] = { firstMs: rounded(first.ms), gpuMs: rounded(median(times)) };
    }
    await model.close();
    report.note('searches', found);
  }
  return found;
}
