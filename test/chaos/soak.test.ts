import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { makeFixtureRepository } from '../fixtures/make-models.ts';
import type { MillraceProcess } from '../support/process.ts';
import { until } from '../support/redis.ts';
import { type Drill, MODEL, startDrill } from './drill.ts';
import { randomOf, SEED } from './drill-report.ts';

/** The short form of the test suite; `npm run drills -- --soak=10m` is the long one. */
const MINUTES = Number(process.env['SOAK_MINUTES'] ?? 1);
const CLIENTS = 8;
/** Small heaps and pools still fill in the short form, so it can only find leaks that are coarse. */
const FLAT = MINUTES >= 10 ? 0.1 : 0.35;
const REDIS_SLACK_BYTES = 5 * 1024 * 1024;
const KILL_EVERY_MS = 20_000;
const PHASES = 4;

const random = randomOf(SEED);
const counts = {
  answered: 0,
  refused: 0,
  refusals: {} as Record<string, number>,
  broken: 0,
  cancelled: 0,
  jobs: 0,
  kills: 0,
  wrong: [] as string[],
};
let drill: Drill;
let worker: MillraceProcess;
let producer: MillraceProcess;
/** Killed and started again, all the time. */
let victims: MillraceProcess[];

beforeAll(async () => {
  drill = await startDrill();
  makeFixtureRepository(drill.models, ['rowsum', 'id_f32']);
  [worker, producer, ...victims] = await Promise.all([
    drill.worker(),
    drill.producer(),
    drill.worker(),
    drill.producer(),
  ]);
  for (const model of [MODEL, 'rowsum', 'id_f32']) {
    for (const { url } of [producer, victims[1]!]) {
      await until('the model is ready', async () => (await fetch(`${url}/v2/models/${model}/ready`)).ok);
    }
  }
});
afterAll(() => drill.close());

it(
  `memory is where it was after ${MINUTES} min of mixed requests, cancels, jobs and kills`,
  { timeout: (MINUTES + 4) * 60_000 },
  async () => {
    const state = { over: false };
    const killer = killNowAndThen(state);
    killer.catch(() => undefined); // told at the end, where it is awaited
    const clients = Array.from({ length: CLIENTS }, () => beClient(state));
    const readings: { worker: number; producer: number }[] = [];
    let redisBefore = 0;
    const phaseMs = (MINUTES * 60_000) / PHASES;
    for (let phase = 0; phase < PHASES; phase += 1) {
      const endMs = performance.now() + phaseMs;
      const workerMiB: number[] = [];
      const producerMiB: number[] = [];
      while (performance.now() < endMs) {
        await sleep(250);
        workerMiB.push(await residentMiB(worker.pid));
        producerMiB.push(await residentMiB(producer.pid));
      }
      readings.push({ worker: median(workerMiB), producer: median(producerMiB) });
      // After the first phase the finished jobs that BullMQ keeps are as many as they will be.
      if (phase === 0) redisBefore = await drill.redis.client().memory('STATS').then(usedBytes);
    }
    state.over = true;
    await Promise.all([killer, ...clients]);
    const seconds = MINUTES * 60;
    console.log(
      `soak: seed ${SEED}, ${seconds} s, ${JSON.stringify(counts)}, MiB by quarter: ${JSON.stringify(readings)}`,
    );
    expect(counts.wrong).toEqual([]);
    expect(counts.answered).toBeGreaterThan(seconds);
    await until('nothing waits', async () => (await drill.queue.getJobCountByTypes('active', 'waiting')) === 0, 30_000);
    let redisAfter = 0;
    await until(
      'Redis is as full as it was',
      async () => {
        redisAfter = await drill.redis.client().memory('STATS').then(usedBytes);
        return redisAfter < redisBefore + REDIS_SLACK_BYTES;
      },
      30_000,
    );
    console.log(`soak: bytes of Redis before and after: ${redisBefore}, ${redisAfter}`);
    expect(await tensorKeys(), 'tensors that nobody needs').toBeLessThan(50);
    const [, second, , last] = readings;
    for (const name of ['worker', 'producer'] as const) {
      expect(last![name] / second![name], `MiB of the ${name}, by quarter`).toBeLessThan(1 + FLAT);
    }
  },
);

async function killNowAndThen(state: { over: boolean }): Promise<void> {
  for (;;) {
    const endMs = performance.now() + KILL_EVERY_MS;
    while (performance.now() < endMs) {
      if (state.over) return;
      await sleep(100);
    }
    const index = random() < 0.5 ? 0 : 1;
    const victim = victims[index]!;
    victim.kill(random() < 0.5 ? 'SIGKILL' : 'SIGTERM');
    await victim.exited;
    counts.kills += 1;
    victims[index] = await (index === 0 ? drill.worker() : drill.producer());
  }
}

async function beClient(state: { over: boolean }): Promise<void> {
  const kinds = [askRows, askRows, askSlow, askSlow, askBytes, cancel, runJob, dropJob];
  while (!state.over) {
    const kind = kinds[Math.floor(random() * kinds.length)]!;
    const { url } = random() < 0.5 ? producer : victims[1]!;
    try {
      await kind(url);
    } catch {
      counts.broken += 1; // the producer was killed under it: the client would send it again
      await sleep(100);
    }
  }
}

async function askRows(url: string): Promise<void> {
  const { body, sum } = rows();
  await note(await fetch(`${url}/v2/models/rowsum/infer`, { method: 'POST', body }), sum);
}

async function runJob(url: string): Promise<void> {
  const { body, sum } = rows();
  const taken = await fetch(`${url}/v2/models/rowsum/jobs?timeout=60s&keep=2s`, { method: 'POST', body });
  await taken.arrayBuffer();
  if (taken.status !== 202) return note(taken, sum);
  counts.jobs += 1;
  await note(await fetch(`${producer.url}${taken.headers.get('location')}/result?wait=60s`), sum);
}

async function dropJob(url: string): Promise<void> {
  const path = `${url}/v2/models/rowsum/jobs?delay=${Math.floor(random() * 100)}ms&timeout=60s&keep=2s`;
  const taken = await fetch(path, { method: 'POST', body: rows().body });
  await taken.arrayBuffer();
  const location = taken.headers.get('location');
  if (location !== null) await (await fetch(`${producer.url}${location}`, { method: 'DELETE' })).arrayBuffer();
  counts.cancelled += 1;
}

async function askSlow(url: string): Promise<void> {
  const value = Math.floor(random() * 1000);
  await note(
    await fetch(`${url}/v2/models/${MODEL}/infer`, { method: 'POST', body: slow(value, 1 + random() * 30) }),
    value,
  );
}

async function cancel(url: string): Promise<void> {
  const signal = AbortSignal.timeout(Math.ceil(random() * 50));
  const body = slow(1, 200);
  const answer = await fetch(`${url}/v2/models/${MODEL}/infer`, { method: 'POST', body, signal }).catch(
    () => undefined,
  );
  await answer?.arrayBuffer().catch(() => undefined);
  counts.cancelled += 1;
}

async function askBytes(url: string): Promise<void> {
  const count = Math.floor(1 + random() ** 3 * 250_000);
  const data = Buffer.from(new Float32Array(count).fill(random()).buffer);
  const input = { name: 'x', datatype: 'FP32', shape: [1, count], parameters: { binary_data_size: data.length } };
  const head = JSON.stringify({ inputs: [input], outputs: [{ name: 'y', parameters: { binary_data: true } }] });
  const answer = await fetch(`${url}/v2/models/id_f32/infer`, {
    method: 'POST',
    headers: { 'inference-header-content-length': String(head.length) },
    body: Buffer.concat([Buffer.from(head), data]),
  });
  const body = Buffer.from(await answer.arrayBuffer());
  if (answer.status !== 200) {
    refused(answer.status, body.toString());
    return;
  }
  const length = Number(answer.headers.get('inference-header-content-length'));
  if (body.subarray(length).equals(data)) counts.answered += 1;
  else counts.wrong.push(`${count} floats came back otherwise`);
}

function rows(): { body: string; sum: number } {
  const length = Math.floor(1 + random() ** 2 * 2000);
  const inputs = [{ name: 'x', datatype: 'FP32', shape: [1, length], data: Array<number>(length).fill(1) }];
  return { body: JSON.stringify({ inputs }), sum: length };
}

function slow(value: number, loops: number): string {
  const inputs = [
    { name: 'INPUT', datatype: 'FP32', shape: [1, 1], data: [value] },
    { name: 'LOOPS', datatype: 'INT64', shape: [1, 1], data: [Math.floor(loops)] },
  ];
  return JSON.stringify({ inputs });
}

async function note(answer: Response, expected: number): Promise<void> {
  if (answer.status !== 200) {
    refused(answer.status, await answer.text());
    return;
  }
  const { outputs } = (await answer.json()) as { outputs: { data: number[] }[] };
  if (outputs[0]!.data[0] === expected) counts.answered += 1;
  else counts.wrong.push(`${outputs[0]!.data[0]} for ${expected}`);
}

function refused(status: number, text: string): void {
  if ([429, 503, 504].includes(status)) {
    counts.refused += 1;
    counts.refusals[`${status} ${text.slice(0, 80)}`] = (counts.refusals[`${status} ${text.slice(0, 80)}`] ?? 0) + 1;
  } else counts.wrong.push(`${status}: ${text.slice(0, 200)}`);
}

async function tensorKeys(): Promise<number> {
  return (await drill.redis.client().keys('{millrace}.tensor:*')).length;
}

/** Without what clients and the replication backlog take. */
function usedBytes(stats: unknown): number {
  const fields = stats as (string | number)[];
  return Number(fields[fields.indexOf('dataset.bytes') + 1]);
}

/** Linux only; elsewhere the file is missing, and the test says so. */
async function residentMiB(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)![1]) / 1024;
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  return Math.round(sorted[Math.floor(sorted.length / 2)]!);
}
