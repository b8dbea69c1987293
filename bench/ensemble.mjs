// `node bench/ensemble.mjs`: what an ensemble costs beside its models. The two-step ensemble of the conformance suite and
// the same two models called one after the other, by turns in one process, for a lone caller and for 64 at once.
//   SECONDS=2 REPEATS=5 node bench/ensemble.mjs
// Writes bench/results/ensemble.json.
import { cpSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fail, installIfStale, root } from '../scripts/install.mjs';

installIfStale();
const { buildIfStale } = await import('../scripts/build.mjs');
buildIfStale();
const { createEngine } = await import('../dist/worker/engine/create-engine.js');
const { createCApiBackend } = await import('../dist/worker/engine/backend/onnx/c-api/c-api-backend.js');
const { Call } = await import('../dist/shared/infer/call.js');

const SECONDS = Number(process.env.SECONDS ?? 2);
const REPEATS = Number(process.env.REPEATS ?? 5);
const STEPS = 2;
const MODELS = ['normalize', 'softmax', 'ensemble_pre_post'];
const GOAL_US = 60;

const engine = await startEngine();
const rows = [];
for (const callers of [1, 64]) rows.push(await compare(callers));
await engine.close(1000);
const results = { cpu: cpus()[0]?.model, cores: cpus().length, node: process.versions.node, goalUs: GOAL_US, rows };
writeFileSync(join(root, 'bench', 'results', 'ensemble.json'), `${JSON.stringify(results, null, 2)}\n`);
process.exit(0);

async function startEngine() {
  const source = join(root, '..', 'shared', 'conformance', 'models');
  if (!existsSync(source)) fail('the comparison needs the folder ../shared/conformance');
  const folder = mkdtempSync(join(tmpdir(), 'millrace-ensemble-'));
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  for (const model of MODELS) cpSync(join(source, model), join(folder, model), { recursive: true });
  const silent = { debug() {}, info() {}, warn() {}, error() {} };
  return createEngine({ repositories: [folder], backend: createCApiBackend(), logger: silent });
}

async function compare(callers) {
  const ways = { ensemble: callEnsemble, byHand: callByHand };
  const turns = { ensemble: [], byHand: [] };
  for (const call of Object.values(ways)) await turn(call, callers, 1);
  for (let repeat = 0; repeat < REPEATS; repeat++) {
    for (const [name, call] of Object.entries(ways)) turns[name].push(await turn(call, callers, SECONDS));
  }
  const pairs = turns.ensemble.map((ensemble, index) => ({ ensemble, byHand: turns.byHand[index] }));
  const row = {
    callers,
    ensembleUs: round(median(turns.ensemble.map(({ us }) => us))),
    byHandUs: round(median(turns.byHand.map(({ us }) => us))),
    // What a step costs beyond calling its model by hand, and for a lone caller beyond the model's own run.
    stepBeyondCallsUs: round(median(pairs.map(({ ensemble, byHand }) => (ensemble.us - byHand.us) / STEPS))),
    ...(callers === 1 && {
      stepBeyondRunsUs: round(median(turns.ensemble.map(({ us, runsUs }) => (us - runsUs) / STEPS))),
    }),
    stepBeyondCallsCpuUs: round(median(pairs.map(({ ensemble, byHand }) => (ensemble.cpuUs - byHand.cpuUs) / STEPS))),
  };
  console.log(JSON.stringify(row));
  return row;
}

/** Time per answer, the part of a request's own time in runs, and the processor time of the whole process per answer. */
async function turn(call, callers, seconds) {
  const endMs = performance.now() + seconds * 1000;
  const cpu = process.cpuUsage();
  const startMs = performance.now();
  let requests = 0;
  let runsUs = 0;
  const caller = async () => {
    while (performance.now() < endMs) {
      runsUs += await call();
      requests += 1;
    }
  };
  await Promise.all(Array.from({ length: callers }, caller));
  const us = ((performance.now() - startMs) * 1000) / requests;
  const { user, system } = process.cpuUsage(cpu);
  return { us, runsUs: runsUs / requests, cpuUs: (user + system) / requests };
}

async function callEnsemble() {
  const { timings } = await send('ensemble_pre_post', pixels());
  return runsOf(timings);
}

async function callByHand() {
  const first = await send('normalize', { ...pixels(), name: 'INPUT' });
  const second = await send('softmax', { ...first.outputs[0], name: 'INPUT' });
  return runsOf(first.timings) + runsOf(second.timings);
}

function pixels() {
  return { name: 'IMAGE', datatype: 'UINT8', shape: [1, 4], data: new Uint8Array([1, 2, 3, 4]) };
}

function runsOf({ computeInputUs, computeInferUs, computeOutputUs }) {
  return computeInputUs + computeInferUs + computeOutputUs;
}

function send(model, input) {
  const nowMs = performance.now();
  const request = { id: '', model, version: '', inputs: [input], outputs: [], parameters: {} };
  return engine.infer(request, new Call('bench', nowMs, nowMs + 30_000));
}

function median(values) {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];
}

function round(value) {
  return Math.round(value * 10) / 10;
}
