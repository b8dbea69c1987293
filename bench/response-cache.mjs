// `node bench/response-cache.mjs`: what an answer from the response cache takes beside a run of its model, in one process
// and for a lone caller, without HTTP. Redis is a server of its own on this machine.
//   SECONDS=2 REPEATS=3 node bench/response-cache.mjs
// Writes bench/results/response-cache.json.
import { spawn } from 'node:child_process';
import { appendFileSync, cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { installIfStale, root } from '../scripts/install.mjs';

installIfStale();
const { buildIfStale } = await import('../scripts/build.mjs');
buildIfStale();
const { createEngine } = await import('../dist/worker/engine/create-engine.js');
const { createCApiBackend } = await import('../dist/worker/engine/backend/onnx/c-api/c-api-backend.js');
const { createService } = await import('../dist/producer/service/inference-service.js');
const { Admission } = await import('../dist/producer/service/admission.js');
const { LocalStore } = await import('../dist/producer/service/cache/local-store.js');
const { RedisStore } = await import('../dist/producer/service/cache/redis-store.js');
const { Call } = await import('../dist/shared/infer/call.js');

const SECONDS = Number(process.env.SECONDS ?? 2);
const REPEATS = Number(process.env.REPEATS ?? 3);
const REDIS_PORT = Number(process.env.REDIS_PORT ?? 16_379);
const silent = { debug() {}, info() {}, warn() {}, error() {} };

/** The input of each model, one row. */
const MODELS = {
  digits_mlp: () => ({ name: 'pixels', datatype: 'FP32', shape: [1, 64], data: new Uint8Array(64 * 4) }),
  efficientnet_lite0_int8: () => ({
    name: 'pixel_values',
    datatype: 'FP32',
    shape: [1, 3, 224, 224],
    data: new Uint8Array(224 * 224 * 3 * 4),
  }),
};

const folder = mkdtempSync(join(tmpdir(), 'millrace-cache-'));
process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
for (const model of Object.keys(MODELS)) {
  cpSync(join(root, 'examples', 'models', model), join(folder, model), { recursive: true });
  appendFileSync(join(folder, model, 'config.pbtxt'), '\nresponse_cache { enable: true }\n');
}
const redisServer = spawn('redis-server', ['--port', String(REDIS_PORT), '--save', '', '--dir', folder], {
  stdio: 'ignore',
});
process.once('exit', () => redisServer.kill());
const engine = await createEngine({
  repositories: [folder],
  backend: createCApiBackend(),
  logger: silent,
  identities: true,
});
const redis = new RedisStore(
  {
    kind: 'redis',
    connection: { host: '127.0.0.1', port: REDIS_PORT, db: 0 },
    ttlMs: 600_000,
    maxEntryBytes: 1_000_000,
    timeoutMs: 1000,
  },
  silent,
);
await redis.start();
const ways = {
  none: serviceWith(undefined),
  local: serviceWith(new LocalStore(100_000_000)),
  redis: serviceWith(redis),
};

const rows = [];
for (const [model, input] of Object.entries(MODELS)) rows.push(await compare(model, input));
await redis.close();
await engine.close(1000);
const results = { cpu: cpus()[0]?.model, cores: cpus().length, node: process.versions.node, rows };
writeFileSync(join(root, 'bench', 'results', 'response-cache.json'), `${JSON.stringify(results, null, 2)}\n`);
process.exit(0);

function serviceWith(responseStore) {
  const admission = new Admission({ maxRequestsInFlight: 1000, maxBytesInFlight: 1e9 });
  const traffic = { wrap: (next) => next };
  return createService({ dispatcher: engine, admission, traffic, responseStore });
}

/** Medians over the repeats of the time per answer: without a cache, from each store, and for one that has to be kept. */
async function compare(model, input) {
  const turns = { run: [], localHit: [], redisHit: [], localMiss: [] };
  const same = input();
  await Promise.all(Object.values(ways).map((infer) => send(infer, model, same)));
  let next = 0;
  const another = () => {
    const tensor = input();
    new DataView(tensor.data.buffer).setUint32(0, (next += 1), true);
    return tensor;
  };
  for (let repeat = 0; repeat < REPEATS; repeat++) {
    turns.run.push(await turn(() => send(ways.none, model, same)));
    turns.localHit.push(await turn(() => send(ways.local, model, same)));
    turns.redisHit.push(await turn(() => send(ways.redis, model, same)));
    turns.localMiss.push(await turn(() => send(ways.local, model, another())));
  }
  const us = (name) => median(turns[name]);
  const row = {
    model,
    inputBytes: same.data.byteLength,
    runUs: us('run'),
    localHitUs: us('localHit'),
    redisHitUs: us('redisHit'),
    missUs: us('localMiss'),
  };
  console.log(JSON.stringify(row));
  return row;
}

async function turn(call) {
  const endMs = performance.now() + SECONDS * 1000;
  const startMs = performance.now();
  let answers = 0;
  for (; performance.now() < endMs; answers++) {
    await call();
    // Timers and sockets get their turn, as between requests of a network.
    if (answers % 16 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  return ((performance.now() - startMs) * 1000) / answers;
}

function send(infer, model, input) {
  const nowMs = performance.now();
  const request = { id: '', model, version: '', inputs: [input], outputs: [], parameters: {} };
  return infer(request, new Call('bench', nowMs, nowMs + 30_000));
}

function median(values) {
  return Math.round(values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] * 10) / 10;
}
