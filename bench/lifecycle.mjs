// `node bench/lifecycle.mjs`: what changing models costs. (1) The latency of one model while another is replaced, one reload a
// second and one after the other, as a ratio to its latency without, by turns in one process; beside it what another process
// costs it that does nothing but keep a processor busy at the lowest priority. (2) How long 100 small models take to load, and
// what memory each adds beyond its file.
//   RELOADS=50 node bench/lifecycle.mjs
// Writes bench/results/lifecycle.json.
import { spawn } from 'node:child_process';
import { copyFileSync, cpSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { copyFile, rename } from 'node:fs/promises';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { installIfStale, root } from '../scripts/install.mjs';

installIfStale();
const { buildIfStale } = await import('../scripts/build.mjs');
buildIfStale();
const { createEngine } = await import('../dist/worker/engine/create-engine.js');
const { createCApiBackend } = await import('../dist/worker/engine/backend/onnx/c-api/c-api-backend.js');
const { Call } = await import('../dist/shared/infer/call.js');

/** Short turns, so that what else the machine does falls on all alike. */
const RELOADS_OF_A_TURN = 5;
const TURNS = Math.ceil(Number(process.env.RELOADS ?? 50) / RELOADS_OF_A_TURN);
const MODELS = 100;
const NEIGHBOUR = 'digits_mlp';
const CHANGING = 'magika';
const EXAMPLES = join(root, 'examples', 'models');
const silent = { debug() {}, info() {}, warn() {}, error() {} };
const backend = createCApiBackend();

const folder = mkdtempSync(join(tmpdir(), 'millrace-lifecycle-'));
process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
const neighbour = await measureNeighbour();
const many = await measureMany();
const machine = { cpu: cpus()[0]?.model, cores: cpus().length, node: process.versions.node };
writeFileSync(
  join(root, 'bench', 'results', 'lifecycle.json'),
  `${JSON.stringify({ ...machine, neighbour, many }, null, 2)}\n`,
);
console.log(JSON.stringify({ neighbour, many }, null, 2));
process.exit(0);

/** A client asks the neighbour all the time, with and without reloads of the other. */
async function measureNeighbour() {
  const repository = join(folder, 'two');
  for (const name of [NEIGHBOUR, CHANGING]) cpSync(join(EXAMPLES, name), join(repository, name), { recursive: true });
  const engine = await createEngine({
    repositories: [repository],
    backend,
    logger: silent,
    controlMode: 'explicit',
    loadAtStart: ['*'],
  });
  const file = join(repository, CHANGING, '1', 'model.onnx');
  const times = { without: [], onePerSecond: [], oneAfterTheOther: [], busyProcessor: [] };
  const measure = async (kind, work) => times[kind].push(...(await latencies(engine, work)));
  await latencies(engine, sleep(1000));
  for (let turn = 0; turn < TURNS; turn++) {
    await measure('onePerSecond', reload(engine, file, 1000));
    await measure('without', sleep(RELOADS_OF_A_TURN * 1000));
    await measure('oneAfterTheOther', reload(engine, file, 0));
    const busy = spawn('nice', ['-n', '19', process.execPath, '-e', 'for (;;);']);
    await sleep(200); // its start is over
    await measure('busyProcessor', sleep(1000));
    busy.kill('SIGKILL');
  }
  await engine.close(1000);
  const p50 = (kind) => round(quantile(times[kind], 0.5));
  const p99 = (kind) => round(quantile(times[kind], 0.99));
  return {
    reloads: RELOADS_OF_A_TURN * TURNS,
    ...Object.fromEntries(
      Object.keys(times).map((kind) => [
        kind,
        { p50Us: p50(kind), p99Us: p99(kind), p99Ratio: round(p99(kind) / p99('without')) },
      ]),
    ),
  };
}

/** Some reloads, each begun `everyMs` after the last, or at once when that one took longer. */
async function reload(engine, file, everyMs) {
  for (let i = 0; i < RELOADS_OF_A_TURN; i++) {
    const pause = sleep(everyMs);
    await copyFile(file, `${file}.next`); // a new file is a change, whatever is in it
    await rename(`${file}.next`, file);
    await engine.control.load(CHANGING);
    await pause;
  }
}

/** Each request's time in µs, for as long as the work goes on. */
async function latencies(engine, work) {
  let over = false;
  void work.then(() => (over = true));
  const model = engine.catalog.resolve(NEIGHBOUR, '');
  const inputs = model.inputs.map(({ name, datatype, shape }) => {
    const dims = shape.map((dim) => (dim === -1 ? 1 : dim));
    const elements = dims.reduce((product, dim) => product * dim, 1);
    return { name, datatype, shape: dims, data: new Uint8Array(elements * 4) };
  });
  const us = [];
  while (!over) {
    const nowMs = performance.now();
    const call = new Call('bench', nowMs, nowMs + 60_000);
    const request = { id: '', model: NEIGHBOUR, version: '', inputs, outputs: [], parameters: {} };
    await engine.infer(request, call);
    us.push((performance.now() - nowMs) * 1000);
    await sleep(1);
  }
  return us;
}

async function measureMany() {
  const repository = join(folder, 'many');
  let bytes = 0;
  for (let i = 0; i < MODELS; i++) {
    const model = join(repository, `model_${i}`, '1');
    mkdirSync(model, { recursive: true });
    copyFileSync(join(EXAMPLES, NEIGHBOUR, '1', 'model.onnx'), join(model, 'model.onnx'));
    bytes += statSync(join(model, 'model.onnx')).size;
  }
  const before = process.memoryUsage.rss();
  const startedMs = performance.now();
  const engine = await createEngine({ repositories: [repository], backend, logger: silent });
  const seconds = (performance.now() - startedMs) / 1000;
  const grown = process.memoryUsage.rss() - before;
  const ready = engine.catalog.list().filter(({ state }) => state === 'READY').length;
  await engine.close(1000);
  return { models: ready, seconds: round(seconds), mibEachBeyondFile: round((grown - bytes) / MODELS / 1024 / 1024) };
}

function sleep(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

function quantile(values, share) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
}

function round(value) {
  return Math.round(value * 100) / 100;
}
