import { readFile } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { makeFixtureRepository } from '../fixtures/make-models.ts';
import { type MillraceProcess, ROOT, startMillrace } from '../support/process.ts';

const WARM_UP = 10_000;
const REQUESTS = 20_000;
/** The memory is read this often while the requests run; the medians of a quarter of the readings are compared. */
const READ_EVERY = 100;
const CONNECTIONS = 16;
const FLAT = 0.05;

interface Call {
  readonly path: string;
  readonly body: Buffer;
  readonly headers?: Record<string, string>;
  readonly status: number;
}

let folder = '';
let serve: MillraceProcess;
let calls: readonly Call[];
const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'millrace-memory-'));
  makeFixtureRepository(folder, ['simple', 'rowsum', 'id_f32', 'id_str', 'div_int']);
  const repositories = ['examples/models', folder].map((path) => `--model-repository=${path}`);
  serve = await startMillrace(['serve', ...repositories, '--log-info=false']);
  calls = await mixedCalls();
});
afterAll(async () => {
  agent.destroy();
  await serve.stop();
  await rm(folder, { recursive: true, force: true });
});

test(`memory stays within ${FLAT * 100} % over ${REQUESTS} mixed requests`, { timeout: 1_800_000 }, async () => {
  const random = pseudoRandom(1);
  await send(WARM_UP, random, () => undefined);
  const readings: number[] = [];
  await send(REQUESTS, random, async (count) => {
    if (count % READ_EVERY === 0) readings.push(await residentMiB(serve.pid));
  });
  const quarter = readings.length / 4;
  const medians = [0, 1, 2, 3].map((index) => median(readings.slice(index * quarter, (index + 1) * quarter)));
  const [first, ...later] = medians;
  for (const each of later) {
    expect(each / first!, `MiB in each quarter: ${medians.join(', ')}`).toBeLessThan(1 + FLAT);
  }
});

/** Small and large, good and bad, of every facade. */
async function mixedCalls(): Promise<readonly Call[]> {
  const file = (name: string): Promise<Buffer> => readFile(join(ROOT, 'examples', 'photos', name));
  const coffee = await file('coffee.png');
  const infer = (model: string, body: object, status = 200): Call => ({
    path: `/v2/models/${model}/infer`,
    body: Buffer.from(JSON.stringify(body)),
    status,
  });
  const rows = (count: number) => Array.from({ length: count * 16 }, (_, index) => index);
  const simple = (count: number) => ({
    inputs: ['INPUT0', 'INPUT1'].map((name) => ({ name, datatype: 'INT32', shape: [count, 16], data: rows(count) })),
  });
  const text = (length: number) => 'the water turns the wheel and '.repeat(Math.ceil(length / 30)).slice(0, length);
  const small = [
    ...[1, 2, 5, 8].map((count) => infer('simple', simple(count))),
    ...[1, 10, 300].map((length) =>
      infer('rowsum', { inputs: [{ name: 'x', datatype: 'FP32', shape: [1, length], data: Array(length).fill(0.5) }] }),
    ),
    infer('simple', { inputs: [] }, 400),
    infer('rowsum', { inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 3], data: [1] }] }, 400),
    infer('div_int', { inputs: [{ name: 'x', datatype: 'INT64', shape: [1, 1], data: [77] }] }, 400),
    infer('nothing', simple(1), 404),
    infer('id_str', { inputs: [{ name: 'x', datatype: 'BYTES', shape: [1, 2], data: ['wheel', text(500)] }] }),
    binaryFloats(1_000),
    binaryFloats(30_000),
  ];
  const heavy: Call[] = [
    { path: '/models/efficientnet_lite0_int8', body: coffee, status: 200 },
    { path: '/models/efficientnet_lite0_int8', body: Buffer.from('no photo'), status: 415 },
    { path: '/models/minilm', body: Buffer.from(JSON.stringify({ inputs: text(60) })), status: 200 },
    {
      path: '/v1/embeddings',
      body: Buffer.from(JSON.stringify({ model: 'minilm', input: [text(20), text(200)] })),
      status: 200,
    },
    { path: '/models/magika', body: coffee.subarray(0, 5000), status: 200 },
    binaryFloats(1_000_000),
  ];
  // Photos and texts cost a hundred times what the others do, and would make the test take an hour.
  return [...Array.from({ length: 12 }, () => small).flat(), ...heavy];
}

function binaryFloats(count: number): Call {
  const input = { name: 'x', datatype: 'FP32', shape: [1, count], parameters: { binary_data_size: count * 4 } };
  const head = JSON.stringify({ inputs: [input], outputs: [{ name: 'y', parameters: { binary_data: true } }] });
  return {
    path: '/v2/models/id_f32/infer',
    headers: { 'inference-header-content-length': String(head.length) },
    body: Buffer.concat([Buffer.from(head), Buffer.alloc(count * 4)]),
    status: 200,
  };
}

async function send(count: number, random: () => number, after: (sent: number) => unknown): Promise<void> {
  let sent = 0;
  const client = async (): Promise<void> => {
    while (sent < count) {
      sent++;
      const call = calls[Math.floor(random() * calls.length)]!;
      const number = sent;
      const status = await statusOf(call);
      if (status !== call.status) throw new Error(`${call.path} answered ${status}, expected ${call.status}`);
      await after(number);
    }
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, client));
}

function statusOf({ path, body, headers = {} }: Call): Promise<number> {
  return new Promise((resolve, reject) => {
    request(`${serve.url}${path}`, { method: 'POST', agent, headers }, (response) => {
      response.once('error', reject).once('end', () => resolve(response.statusCode ?? 0));
      response.resume();
    })
      .once('error', reject)
      .end(body);
  });
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

/** The same order of requests in every run: a linear congruential generator, good enough to mix. */
function pseudoRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}
