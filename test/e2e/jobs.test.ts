import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { JobDocument } from '../../producer/facade/jobs/codec.ts';
import { makeFixtureRepository } from '../fixtures/make-models.ts';
import { type MillraceProcess, startMillrace } from '../support/process.ts';
import { type RedisServer, startRedis, until } from '../support/redis.ts';
import { makeOneInstanceSlow } from '../support/slow-model.ts';

const WIDE = { inputs: [{ name: 'x', datatype: 'FP32', shape: [2, 3], data: [1, 2, 3, 4, 5, 6] }] };
/** About 50 ms for each unit. */
const slow = (units: number) => ({ inputs: [{ name: 'x', datatype: 'INT64', shape: [1, 1], data: [units] }] });

let folder = '';
let redis: RedisServer;
let serve: MillraceProcess;
let producer: MillraceProcess;
let second: MillraceProcess;
let worker: MillraceProcess;

const queue = () => [`--redis=${redis.url}`, '--log-info=false'];
const startWorker = () => startMillrace(['worker', `--model-repository=${folder}`, ...queue()]);

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'millrace-e2e-'));
  makeFixtureRepository(folder, ['simple', 'rowsum', 'id_f32', 'mlp', 'div_int']);
  makeOneInstanceSlow(folder);
  redis = await startRedis();
  [serve, producer, second, worker] = await Promise.all([
    startMillrace(['serve', `--model-repository=${folder}`, '--log-info=false']),
    startMillrace(['producer', ...queue()]),
    startMillrace(['producer', ...queue()]),
    startWorker(),
  ]);
  for (const { url } of [producer, second]) {
    await until('the producer knows the worker', async () => (await fetch(`${url}/v2/health/ready`)).ok, 60_000);
  }
});
afterAll(async () => {
  await Promise.all([serve, producer, second, worker].map((process) => process.stop('SIGKILL')));
  await redis.stop();
  await rm(folder, { recursive: true, force: true });
});

describe.each([
  ['serve', () => serve.url],
  ['producer and worker', () => producer.url],
])('jobs of %s', (_, url) => {
  test('are taken with 202, and answered as infer would have', async () => {
    for (const body of [WIDE, { ...WIDE, id: 'mine', parameters: { binary_data_output: true } }]) {
      const taken = await post(`${url()}/v2/models/rowsum/jobs`, body);
      expect(taken.status).toBe(202);
      const job = (await taken.json()) as JobDocument;
      expect(taken.headers.get('location')).toBe(`/jobs/${job.id}`);
      expect(job).toMatchObject({ model: 'rowsum', version: null, state: 'queued', attempts: { made: 0, max: 3 } });
      const result = await fetch(`${url()}${job.links.result}?wait=30s`);
      await expectSame(result, await post(`${url()}/v2/models/rowsum/infer`, body));
      const done = await jobOf(await fetch(`${url()}${job.links.self}`));
      expect(done).toMatchObject({ state: 'succeeded', attempts: { made: 1, max: 3 }, position: null });
      expect(done).not.toHaveProperty('error');
    }
  });

  test('take binary tensors, versions and classes', async () => {
    const head = { inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 2], parameters: { binary_data_size: 8 } }] };
    const json = Buffer.from(JSON.stringify({ ...head, outputs: [{ name: 'y', parameters: { binary_data: true } }] }));
    const body = Buffer.concat([json, Buffer.from(new Float32Array([1.5, -2]).buffer)]);
    const headers = { 'inference-header-content-length': String(json.length) };
    const path = `${url()}/v2/models/id_f32/versions/1`;
    const job = await jobOf(await fetch(`${path}/jobs`, { method: 'POST', body, headers }));
    expect(job.version).toBe('1');
    await expectSame(
      await fetch(`${url()}${job.links.result}?wait=30s`),
      await fetch(`${path}/infer`, { method: 'POST', body, headers }),
    );
    const classes = {
      inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 32], data: Array<number>(32).fill(0.5) }],
      outputs: [{ name: 'y', parameters: { classification: 3 } }],
    };
    const { links } = await jobOf(await post(`${url()}/v2/models/mlp/jobs`, classes));
    await expectSame(
      await fetch(`${url()}${links.result}?wait=30s`),
      await post(`${url()}/v2/models/mlp/infer`, classes),
    );
  });

  test('come of infer where the client prefers that, with the answer when it waits', async () => {
    const path = `${url()}/v2/models/rowsum/infer`;
    const taken = await post(path, WIDE, { prefer: 'respond-async' });
    expect([taken.status, taken.headers.get('preference-applied')]).toEqual([202, 'respond-async']);
    const waited = await post(path, WIDE, { prefer: 'respond-async, wait=30' });
    expect(waited.headers.get('location')).toMatch(/^\/jobs\/j/);
    await expectSame(waited, await post(path, WIDE));
  });

  test('that fail tell it as infer does', async () => {
    const body = { id: 'seven', inputs: [{ name: 'x', datatype: 'INT64', shape: [1, 1], data: [99] }] };
    const { links } = await jobOf(await post(`${url()}/v2/models/div_int/jobs?attempts=1`, body));
    const result = await fetch(`${url()}${links.result}?wait=30s`);
    await expectSame(result, await post(`${url()}/v2/models/div_int/infer`, body));
    expect(result.ok).toBe(false);
    const failed = await jobOf(await fetch(`${url()}${links.self}`));
    expect(failed).toMatchObject({ state: 'failed', error: { status: result.status } });
  });

  test.each([
    ['an unknown model', 404, 'nothing/jobs', WIDE],
    ['a body that is none', 400, 'rowsum/jobs', {}],
    ['an unknown setting', 400, 'rowsum/jobs?prioritty=1', WIDE],
    ['a delay that is no time', 400, 'rowsum/jobs?delay=soon', WIDE],
    ['more attempts than there are', 400, 'rowsum/jobs?attempts=11', WIDE],
    ['a time to keep above the limit', 400, 'rowsum/jobs?keep=8d', WIDE],
  ])('are refused at once with %s', async (_case, status, path, body) => {
    const answer = await post(`${url()}/v2/models/${path}`, body);
    expect([answer.status, Object.keys((await answer.json()) as object)]).toEqual([status, ['error']]);
  });

  test('are 404 when they never were, and 400 for a wait that is none', async () => {
    for (const path of ['', '/result', '/events']) {
      expect((await fetch(`${url()}/jobs/jnothing${path}`)).status).toBe(404);
    }
    expect((await fetch(`${url()}/jobs/jnothing?wait=6m`)).status).toBe(400);
    expect((await fetch(`${url()}/jobs/jnothing`, { method: 'DELETE' })).status).toBe(404);
    expect((await fetch(`${url()}/jobs?state=lost`)).status).toBe(400);
  });

  test('with one key are one job, and another body under it is 422', async () => {
    const path = `${url()}/v2/models/rowsum/jobs`;
    const headers = { 'idempotency-key': 'invoice-17' };
    const [first, again] = [
      await post(path, WIDE, headers),
      await post(path, WIDE, { 'idempotency-key': '"invoice-17"' }),
    ];
    expect([first.status, again.status]).toEqual([202, 202]);
    expect((await jobOf(again)).id).toBe((await jobOf(first)).id);
    const other = await post(path, { ...WIDE, id: 'other' }, headers);
    expect(other.status).toBe(422);
    expect(await other.text()).toContain('the Idempotency-Key stands for job');
  });

  test('are cancelled before they run, without harm for others', async () => {
    const path = `${url()}/v2/models/slow/jobs`;
    const busy = await jobOf(await post(path, slow(8)));
    const [one, two] = [await jobOf(await post(path, slow(1))), await jobOf(await post(path, slow(2)))];
    const cancelled = await fetch(`${url()}/jobs/${one.id}`, { method: 'DELETE' });
    expect([cancelled.status, (await jobOf(cancelled)).state]).toEqual([200, 'cancelled']);
    expect((await fetch(`${url()}${one.links.result}`)).status).toBe(410);
    for (const { links } of [busy, two]) {
      expect((await fetch(`${url()}${links.result}?wait=30s`)).status).toBe(200);
    }
    const late = await fetch(`${url()}/jobs/${two.id}`, { method: 'DELETE' });
    expect([late.status, await late.json()]).toEqual([
      409,
      { error: expect.stringContaining('is over already') as string },
    ]);
    expect((await jobOf(await fetch(`${url()}/jobs/${one.id}`))).state).toBe('cancelled');
  });

  test('that are not in time are 504, as infer is', async () => {
    const { links } = await jobOf(await post(`${url()}/v2/models/rowsum/jobs?delay=200ms&timeout=1ms`, WIDE));
    const result = await fetch(`${url()}${links.result}?wait=30s`);
    expect([result.status, await result.json()]).toEqual([
      504,
      { error: 'the request was not answered within its timeout of 201 ms' },
    ]);
    expect((await jobOf(await fetch(`${url()}${links.self}`))).state).toBe('expired');
  });

  test('not over are 202 with when to ask again', async () => {
    const { links } = await jobOf(await post(`${url()}/v2/models/rowsum/jobs?delay=1h`, WIDE));
    const result = await fetch(`${url()}${links.result}?wait=10ms`);
    expect([result.status, result.headers.get('retry-after')]).toEqual([202, '1']);
    expect((await jobOf(result)).state).toBe('queued');
  });

  test('are followed by events in their order, which end', async () => {
    const { links } = await jobOf(await post(`${url()}/v2/models/slow/jobs?delay=300ms`, slow(4)));
    const stream = await fetch(`${url()}${links.events}`);
    expect(stream.headers.get('content-type')).toBe('text/event-stream; charset=utf-8');
    const events = (await stream.text()).split('\n\n').filter((event) => event.startsWith('event: '));
    expect(events.map((event) => event.split('\n')[0])).toEqual(['event: queued', 'event: running', 'event: done']);
    const last = JSON.parse(events.at(-1)!.replace(/^[^]*data: /, '')) as JobDocument;
    expect(last.state).toBe('succeeded');
  });

  test('are listed by model and state, in pages', async () => {
    const made: string[] = [];
    for (let i = 0; i < 3; i++)
      made.push((await jobOf(await post(`${url()}/v2/models/simple/jobs?delay=1h`, simple()))).id);
    type List = { jobs: JobDocument[]; cursor: string | null };
    const list = async (query: string) => (await (await fetch(`${url()}/jobs?${query}`)).json()) as List;
    const page = await list('model=simple&state=queued&limit=2');
    expect(page.jobs.map(({ id }) => id)).toEqual([made[2], made[1]]);
    const rest = await list(`model=simple&state=queued&limit=2&cursor=${page.cursor}`);
    expect([rest.jobs.map(({ id }) => id), rest.cursor]).toEqual([[made[0]], null]);
    expect((await list('model=simple&state=failed')).jobs).toEqual([]);
  });

  test('are gone after the time to keep', async () => {
    const { links } = await jobOf(await post(`${url()}/v2/models/rowsum/jobs?keep=1s`, WIDE));
    expect((await fetch(`${url()}${links.result}?wait=30s`)).status).toBe(200);
    await until('it is gone', async () => (await fetch(`${url()}${links.self}`)).status === 404);
    const gone = await fetch(`${url()}${links.result}`);
    expect([gone.status, await gone.text()]).toEqual([404, expect.stringContaining('is not kept any more')]);
  });
});

describe('jobs of a pool', () => {
  test('are awaited through another producer, and a key is one job at both', async () => {
    const headers = { 'idempotency-key': 'both' };
    const urls = [producer.url, second.url, producer.url, second.url];
    const taken = await Promise.all(urls.map((url) => post(`${url}/v2/models/slow/jobs`, slow(4), headers)));
    const ids = new Set((await Promise.all(taken.map(jobOf))).map(({ id }) => id));
    expect(ids.size).toBe(1);
    const [id] = [...ids];
    const result = await fetch(`${second.url}/jobs/${id}/result?wait=30s`);
    expect(result.status).toBe(200);
    expect(await jobOf(await fetch(`${producer.url}/jobs/${id}`))).toMatchObject({ attempts: { made: 1 } });
  });

  test('outlive the producer that took them', async () => {
    const { id } = await jobOf(await post(`${producer.url}/v2/models/slow/jobs`, slow(10)));
    const later = await jobOf(await post(`${producer.url}/v2/models/rowsum/jobs?delay=2s`, WIDE));
    await producer.stop('SIGKILL');
    expect((await fetch(`${second.url}/jobs/${id}/result?wait=30s`)).status).toBe(200);
    producer = await startMillrace(['producer', ...queue()]);
    for (const job of [id, later.id]) {
      expect((await fetch(`${producer.url}/jobs/${job}/result?wait=30s`)).status).toBe(200);
    }
  });

  test('run elsewhere when their worker is killed in the middle', async () => {
    const { id } = await jobOf(await post(`${producer.url}/v2/models/slow/jobs?timeout=2m`, slow(100)));
    await until('it runs', async () => (await jobOf(await fetch(`${producer.url}/jobs/${id}`))).state === 'running');
    const [, next] = await Promise.all([worker.stop('SIGKILL'), startWorker()]);
    worker = next;
    const result = await fetch(`${producer.url}/jobs/${id}/result?wait=90s`);
    expect(result.status, await result.clone().text()).toBe(200);
    const done = await jobOf(await fetch(`${producer.url}/jobs/${id}`));
    expect(done).toMatchObject({ state: 'succeeded', attempts: { made: 2 } });
  });

  test('leave a waiting client with their state when the producer is told to end', async () => {
    const { id } = await jobOf(await post(`${second.url}/v2/models/rowsum/jobs?delay=1h`, WIDE));
    const events = fetch(`${second.url}/jobs/${id}/events`).then((stream) => stream.text());
    const waiting = fetch(`${second.url}/jobs/${id}?wait=60s`);
    await until('both wait', async () => (await fetch(`${second.url}/jobs/${id}`)).ok);
    expect(await second.stop()).toBe(0);
    expect((await jobOf(await waiting)).state).toBe('queued');
    expect(await events).not.toContain('event: done');
    second = await startMillrace(['producer', ...queue()]);
  });
});

function simple() {
  const data = Array.from({ length: 16 }, (_, index) => index);
  return { inputs: ['INPUT0', 'INPUT1'].map((name) => ({ name, datatype: 'INT32', shape: [1, 16], data })) };
}

function post(url: string, body: object, headers: Record<string, string> = {}): Promise<Response> {
  return fetch(url, { method: 'POST', body: JSON.stringify(body), headers });
}

async function jobOf(response: Response): Promise<JobDocument> {
  expect(response.ok, await response.clone().text()).toBe(true);
  return (await response.json()) as JobDocument;
}

/** Same status, body and headers, but for what differs from answer to answer. */
async function expectSame(answer: Response, expected: Response): Promise<void> {
  expect(answer.status).toBe(expected.status);
  const [given, wanted] = await Promise.all([answer.arrayBuffer(), expected.arrayBuffer()]);
  expect(Buffer.from(given).toString('latin1')).toBe(Buffer.from(wanted).toString('latin1'));
  for (const name of ['content-type', 'content-length', 'inference-header-content-length']) {
    expect([name, answer.headers.get(name)]).toEqual([name, expected.headers.get(name)]);
  }
}
