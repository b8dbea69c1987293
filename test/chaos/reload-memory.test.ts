import { mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { encodeModel } from '../support/onnx/model.ts';
import { type MillraceProcess, startMillrace } from '../support/process.ts';

const SIDE = 1024;
const EARLY = 5;
const RELOADS = 50;
const LIMIT = 0.1;
/** Requests before anything is measured: pools and arenas grow with the first ones. */
const WARM_UP = 1000;
const READINGS = 30;
const READ_EVERY_MS = 100;

let folder = '';
let serve: MillraceProcess;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'millrace-reload-'));
  writeVersion(0);
  const options = [`--model-repository=${folder}`, '--model-control-mode=explicit', '--load-model=matrix'];
  serve = await startMillrace(['serve', ...options, '--log-info=false']);
});
afterAll(async () => {
  await serve.stop();
  await rm(folder, { recursive: true, force: true });
});

test(`memory after ${RELOADS} reloads of a model of 4 MiB is within ${LIMIT * 100} % of that after ${EARLY}`, async () => {
  for (let i = 0; i < WARM_UP; i += 1) await ask();
  let early = 0;
  const reloading = { over: false };
  const client = (async () => {
    while (!reloading.over) expect(await ask()).toBe(200);
  })();
  for (let reload = 1; reload <= RELOADS; reload += 1) {
    writeVersion(reload);
    const answer = await fetch(`${serve.url}/v2/repository/models/matrix/load`, { method: 'POST' });
    expect(answer.status, await answer.text()).toBe(200);
    if (reload === EARLY) early = await nativeMiB();
  }
  reloading.over = true;
  await client;
  const late = await nativeMiB();
  expect(late / early, `MiB: ${early} and ${late}`).toBeLessThan(1 + LIMIT);
}, 300_000);

async function ask(): Promise<number> {
  const data = Array.from({ length: SIDE }, () => 1);
  const body = JSON.stringify({ inputs: [{ name: 'x', datatype: 'FP32', shape: [1, SIDE], data }] });
  const answer = await fetch(`${serve.url}/v2/models/matrix/infer`, { method: 'POST', body });
  await answer.arrayBuffer();
  return answer.status;
}

/**
 * What the process holds beside the heap of JavaScript, whose size follows the garbage collector and not the models: the
 * smallest reading of some seconds, because buffers wait for the collector, and what a session held for the trim that
 * follows it.
 */
async function nativeMiB(): Promise<number> {
  const readings: number[] = [];
  for (let i = 0; i < READINGS; i += 1) {
    await pause(READ_EVERY_MS);
    const text = await (await fetch(serve.metricsUrl)).text();
    const valueOf = (name: string) => Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1]);
    const bytes = valueOf('process_resident_memory_bytes') - valueOf('nodejs_heap_size_total_bytes');
    readings.push((bytes - valueOf('nodejs_external_memory_bytes')) / 1024 / 1024);
    await ask();
  }
  return Math.min(...readings);
}

function writeVersion(seed: number): void {
  const weights = Float32Array.from({ length: SIDE * SIDE }, (_, index) => (index + seed) % 7);
  const model = encodeModel({
    inputs: [{ name: 'x', datatype: 'FP32', shape: [-1, SIDE] }],
    outputs: [{ name: 'y', datatype: 'FP32', shape: [-1, SIDE] }],
    initializers: [{ name: 'w', datatype: 'FP32', shape: [SIDE, SIDE], data: Buffer.from(weights.buffer) }],
    nodes: [{ op: 'MatMul', inputs: ['x', 'w'], outputs: ['y'] }],
  });
  mkdirSync(join(folder, 'matrix', '1'), { recursive: true });
  writeFileSync(join(folder, 'next.onnx'), model);
  renameSync(join(folder, 'next.onnx'), join(folder, 'matrix', '1', 'model.onnx'));
}
