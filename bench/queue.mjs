// `node bench/queue.mjs`: what the queue costs, measured at the dispatcher (no HTTP), as ratios in one run. A Redis, a producer
// and a worker of their own for each lane; an identity model, so that nearly nothing is computed.
//   SECONDS=3 REPEATS=5 node bench/queue.mjs [saturated|slow|tensors|workers|waiting …]
// saturated   64 callers with 64 bytes: Millrace beside Redis streams by hand and beside BullMQ's add + waitUntilFinished
// slow        50 requests a second: what the queue adds to a run in the same process
// tensors     8 callers with 150 KB: beside SET, GET and UNLINK of the same bytes there and back
// workers     a model that keeps a processor busy (minilm, 16 tokens): two workers beside one, and beside that two processes
//             that only run it, one thread each, as two cores may be less than twice one
// waiting     the time of an add beside 1,000,000 waiting jobs
// Needs Linux and redis-server. Writes bench/results/dispatcher.json.
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { installIfStale, root } from '../scripts/install.mjs';

installIfStale();
const { buildIfStale } = await import('../scripts/build.mjs');
buildIfStale();
const { runProgram, startServer } = await import('./wire/children.mjs');
const { cpuMs } = await import('./wire/process-figures.mjs');
const { HEAVY_MODEL, writeQueueModels } = await import('./queue/models.mjs');
const { measureWaiting } = await import('./queue/waiting.mjs');
const { measureInProcess } = await import('./queue/in-process.mjs');

const SECONDS = Number(process.env.SECONDS ?? 3);
const REPEATS = Number(process.env.REPEATS ?? 5);
const RESULTS = join(root, 'bench', 'results', 'dispatcher.json');
const MAIN = join(root, 'dist', 'cli', 'main.js');
const folder = mkdtempSync(join(tmpdir(), 'millrace-queue-'));
process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
const models = join(folder, 'models');
writeQueueModels(models, join(root, 'examples', 'models'));

const parts = { saturated, slow, tensors, workers, waiting };
const asked = process.argv.slice(2);
const results = existsSync(RESULTS) ? JSON.parse(readFileSync(RESULTS, 'utf8')) : {};
for (const [name, measure] of Object.entries(parts)) {
  if (asked.length > 0 && !asked.includes(name)) continue;
  results[name] = await measure();
  console.log(name, JSON.stringify(results[name], null, 1));
}
Object.assign(results, { cpu: cpus()[0]?.model, cores: cpus().length, node: process.versions.node });
writeFileSync(RESULTS, `${JSON.stringify(results, null, 2)}\n`);
process.exit(0);

async function saturated() {
  const turns = await byTurns({ millrace: 1, stream: 1, bullmq: 1 }, { callers: 64, bytes: 64 });
  return {
    ...turns,
    ofStream: ratio(turns.millrace.perSecond, turns.stream.perSecond),
    ofBullmq: ratio(turns.millrace.perSecond, turns.bullmq.perSecond),
  };
}

async function slow() {
  const { millrace } = await byTurns({ millrace: 1 }, { bytes: 64, rate: 50 });
  const inProcess = await measureInProcess(models, { bytes: 64, rate: 50, seconds: SECONDS });
  return { millrace, inProcess, addedP50Ms: round(millrace.p50 - inProcess.p50) };
}

async function tensors() {
  const turns = await byTurns({ millrace: 1, setGet: 0 }, { callers: 8, bytes: 150_528 });
  const cost = ratio(turns.millrace.cpuUs, turns.setGet.cpuUs);
  return { ...turns, cpuOfSetGet: cost, perSecondOfSetGet: ratio(turns.millrace.perSecond, turns.setGet.perSecond) };
}

async function workers() {
  const load = { callers: 64, bytes: 64, model: HEAVY_MODEL };
  const one = await byTurns({ millrace: 1 }, load);
  const two = await byTurns({ millrace: 2 }, load);
  const bare = { one: [], two: [] };
  for (let repeat = 0; repeat < REPEATS; repeat++) {
    bare.one.push(await bareRuns(1));
    bare.two.push(await bareRuns(2));
  }
  const runs = { one: round(median(bare.one)), two: round(median(bare.two)) };
  return {
    one: one.millrace,
    two: two.millrace,
    twoOfOne: ratio(two.millrace.perSecond, one.millrace.perSecond),
    bare: { ...runs, twoOfOne: ratio(runs.two, runs.one) },
  };
}

/** Runs a second of so many processes at once that do nothing else. */
async function bareRuns(count) {
  const program = join(root, 'bench', 'queue', 'bare-runs.mjs');
  const args = [program, join(models, HEAVY_MODEL, '1', 'model.onnx'), String(SECONDS)];
  const run = () => runProgram(process.execPath, args, (SECONDS + 60) * 1000);
  const rates = await Promise.all(Array.from({ length: count }, run));
  return rates.reduce((sum, rate) => sum + Number(rate), 0);
}

async function waiting() {
  const redis = await startRedis();
  const figures = await measureWaiting(redis.url, Number(process.env.JOBS ?? 1_000_000));
  await redis.stop();
  return figures;
}

/** Each lane with its own Redis and as many workers as it says, turn by turn; medians. */
async function byTurns(lanes, load) {
  const sites = {};
  for (const [lane, count] of Object.entries(lanes)) sites[lane] = await startSite(lane, count);
  const turns = {};
  for (let repeat = 0; repeat < REPEATS; repeat++) {
    for (const [lane, site] of Object.entries(sites)) (turns[lane] ??= []).push(await turn(lane, site, load));
  }
  for (const site of Object.values(sites)) await site.stop();
  return Object.fromEntries(Object.entries(turns).map(([lane, rows]) => [lane, medians(rows)]));
}

async function startSite(lane, workerCount) {
  const redis = await startRedis();
  const workers = [];
  for (let i = 0; i < workerCount; i++) workers.push(await startWorker(lane, redis.url));
  return {
    url: redis.url,
    workers: workers.map(({ pid }) => pid),
    redis: redis.pid,
    async stop() {
      for (const worker of workers) await worker.stop();
      await redis.stop();
    },
  };
}

function startWorker(lane, url) {
  if (lane === 'millrace') {
    const args = [MAIN, 'worker', `--redis=${url}`, `--model-repository=${models}`, '--metrics-port=0'];
    return startServer(process.execPath, args, (lines) => lines.some((line) => /ready/i.test(line)) || undefined);
  }
  const program = join(root, 'bench', 'queue', lane === 'stream' ? 'stream-worker.mjs' : 'bull-worker.mjs');
  return startServer(process.execPath, [program, url], (lines) => lines.includes('ready') || undefined);
}

async function startRedis() {
  const port = await freePort();
  const args = ['--port', String(port), '--save', '', '--appendonly', 'no', '--maxmemory-policy', 'noeviction'];
  const server = await startServer(
    'redis-server',
    args,
    (lines) => lines.some((line) => line.includes('Ready')) || undefined,
  );
  return { ...server, url: `redis://127.0.0.1:${port}` };
}

/** Processor time is that of the seconds that count, of producer, workers and Redis. */
async function turn(lane, site, load) {
  const args = [
    join(root, 'bench', 'queue', 'producer.mjs'),
    lane,
    site.url,
    JSON.stringify({ seconds: SECONDS, ...load }),
  ];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const others = [...site.workers, site.redis];
  const cpu = () => others.map((pid) => cpuMs(pid));
  let before;
  for await (const line of createInterface({ input: child.stdout })) {
    if (line === 'begin') before = cpu();
    if (!line.startsWith('{')) continue;
    const { requests, elapsedMs, p50, p99, cpuMs: producerMs } = JSON.parse(line);
    const spent = cpu().map((ms, index) => ms - before[index]);
    const perRequest = (ms) => (ms * 1000) / requests;
    return {
      perSecond: (requests * 1000) / elapsedMs,
      p50,
      p99,
      producerUs: perRequest(producerMs),
      workersUs: perRequest(spent.slice(0, -1).reduce((sum, ms) => sum + ms, 0)),
      redisUs: perRequest(spent.at(-1)),
      cpuUs: perRequest(producerMs + spent.reduce((sum, ms) => sum + ms, 0)),
    };
  }
  throw new Error(`the producer of ${lane} left without figures`);
}

function medians(rows) {
  return Object.fromEntries(Object.keys(rows[0]).map((key) => [key, round(median(rows.map((row) => row[key])))]));
}

function freePort() {
  return new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)];
}

function ratio(a, b) {
  return round(a / b);
}

function round(value) {
  return Math.round(value * 100) / 100;
}
