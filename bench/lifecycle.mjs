// `node bench/lifecycle.mjs`: what changing models costs. (1) The latency of one model while another is replaced RELOADS
// times a turn, as a ratio to its latency without, by turns in one process. (2) How long 100 small models take to load, and what
// memory each adds beyond its file.
//   RELOADS=5 node bench/lifecycle.mjs
// Writes bench/results/lifecycle.json.
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

/** Short turns, so that what else the machine does falls on both alike. */
const TURNS = 15;
const RELOADS = Number(process.env.RELOADS ?? 5); // of a turn
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
  const turns = { without: [], with: [] };
  await latencies(engine, sleep(1000));
  for (let turn = 0; turn < TURNS; turn++) {
    turns.with.push(await latencies(engine, reload(engine, file)));
    turns.without.push(await latencies(engine, sleep(turns.with.at(-1).ms)));
  }
  await engine.close(1000);
  const p99 = (rows) => median(rows.map(({ us }) => quantile(us, 0.99)));
  const p50 = (rows) => median(rows.map(({ us }) => quantile(us, 0.5)));
  return {
    reloads: RELOADS * TURNS,
    msPerReload: round(median(turns.with.map(({ ms }) => ms / RELOADS))),
    p50Us: { without: round(p50(turns.without)), with: round(p50(turns.with)) },
    p99Us: { without: round(p99(turns.without)), with: round(p99(turns.with)) },
    p99Ratio: round(p99(turns.with) / p99(turns.without)),
  };
}

async function reload(engine, file) {
  for (let i = 0; i < RELOADS; i++) {
    await copyFile(file, `${file}.next`); // a new file is a change, whatever is in it
    await rename(`${file}.next`, file);
    await engine.control.load(CHANGING);
    await sleep(20);
  }
}

/** Each request's time in µs, for as long as the work goes on. */
async function latencies(engine, work) {
  const startedMs = performance.now();
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
  return { us, ms: performance.now() - startedMs };
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

function median(values) {
  return quantile(values, 0.5);
}

function round(value) {
  return Math.round(value * 100) / 100;
}
