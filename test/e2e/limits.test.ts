import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { LIMITS_KEY, LIMITS_PRODUCERS_KEY } from '../../shared/wire/names.ts';
import { makeFixtureModel } from '../fixtures/make-models.ts';
import { type MillraceProcess, startMillrace } from '../support/process.ts';
import { type RedisServer, startRedis, until } from '../support/redis.ts';

const LIMIT = 6;
let folder = '';
let redis: RedisServer;
let looker: ReturnType<RedisServer['client']>;
let producers: MillraceProcess[];
let worker: MillraceProcess;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'millrace-e2e-'));
  for (const name of ['slow', 'limited']) {
    const limit = name === 'slow' ? '' : 'parameters { key: "queue_max_rows" value { string_value: "4" } }\n';
    makeFixtureModel(
      join(folder, name),
      'slow',
      `platform: "onnxruntime_onnx"
max_batch_size: 4
input { name: "x" data_type: TYPE_INT64 dims: 1 }
output { name: "y" data_type: TYPE_INT64 dims: 1 }
dynamic_batching { }
instance_group { kind: KIND_CPU count: 1 }
${limit}`,
    );
  }
  redis = await startRedis();
  looker = redis.client();
  const env = { REDIS_URL: redis.url };
  worker = await startMillrace(['worker', `--model-repository=${folder}`, '--log-info=false'], { env });
  producers = await Promise.all([startProducer(), startProducer()]);
});
afterAll(async () => {
  await Promise.all([...producers, worker].map((process) => process.stop('SIGKILL')));
  await redis.stop();
  await rm(folder, { recursive: true, force: true });
});

async function startProducer(): Promise<MillraceProcess> {
  const args = ['producer', `--max-pool-requests=${LIMIT}`, '--log-info=false', '--log-warning=false'];
  const producer = await startMillrace(args, { env: { REDIS_URL: redis.url } });
  await until('the producer is ready', async () => (await fetch(`${producer.url}/v2/health/ready`)).ok);
  return producer;
}

/** Takes 50 ms or so for each unit. */
function infer({ url }: MillraceProcess, units: number, model = 'slow', rows = 1): Promise<Response> {
  const inputs = [{ name: 'x', datatype: 'INT64', shape: [rows, 1], data: Array<number>(rows).fill(units) }];
  return fetch(`${url}/v2/models/${model}/infer`, { method: 'POST', body: JSON.stringify({ inputs }) });
}

async function inHand(): Promise<number> {
  return Number((await looker.hget(LIMITS_KEY, 't'))?.split(' ')[0] ?? 0);
}

test('two producers together never take more than the pool may have, and say when to come again', async () => {
  let most = 0;
  const watch = setInterval(() => void inHand().then((now) => (most = Math.max(most, now))), 2);
  const responses = await Promise.all(Array.from({ length: 60 }, (_, index) => infer(producers[index % 2]!, 1)));
  clearInterval(watch);
  const statuses = responses.map(({ status }) => status);
  expect(statuses.filter((status) => status === 200).length).toBeGreaterThanOrEqual(LIMIT);
  for (const response of responses.filter(({ status }) => status !== 200)) {
    expect(response.status).toBe(429);
    expect(Number(response.headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
    expect(Number(response.headers.get('retry-after'))).toBeLessThanOrEqual(60);
    expect(await response.json()).toEqual({
      error: `the pool is busy: ${LIMIT} of ${LIMIT} requests are in hand; try again later`,
    });
  }
  expect(statuses).toContain(429);
  expect(most).toBe(LIMIT);
  await until('all has left', async () => (await inHand()) === 0);
});

test('a model keeps to the rows of its own config, and leaves the others alone (E03)', async () => {
  const first = infer(producers[0]!, 20, 'limited', 3);
  await until('it is in hand', async () => (await inHand()) === 1);
  const refused = await infer(producers[1]!, 1, 'limited', 2);
  expect(refused.status).toBe(429);
  expect(await refused.json()).toEqual({
    error: 'model limited is busy: 3 of 4 rows are in hand, no room for 2 more; try again later',
  });
  expect((await infer(producers[1]!, 1, 'slow')).status).toBe(200);
  const tooLarge = await infer(producers[1]!, 1, 'limited', 5);
  expect(tooLarge.status).toBe(400);
  expect((await first).status).toBe(200);
  await until('all has left', async () => (await inHand()) === 0);
});

test('what one model leaves of its share is kept for it while it is active', async () => {
  const held = Array.from({ length: LIMIT / 2 }, () => infer(producers[0]!, 10));
  await until('they are in hand', async () => (await inHand()) === LIMIT / 2);
  const refused = await infer(producers[1]!, 1);
  expect(refused.status).toBe(429);
  expect(await refused.json()).toEqual({
    error:
      'the pool is busy: 3 of 6 requests are in hand, and the room that is left is kept for other models; try again later',
  });
  expect((await infer(producers[1]!, 1, 'limited')).status).toBe(200);
  for (const response of await Promise.all(held)) expect(response.status).toBe(200);
  await until('all has left', async () => (await inHand()) === 0);
});

test('what a producer had in hand that was killed comes back to the others', async () => {
  const victim = producers[1]!;
  // Both models were asked for lately, so each has half of what there is.
  const models = ['slow', 'slow', 'slow', 'limited', 'limited', 'limited'];
  const lost = models.map((model) => infer(victim, 60, model).catch(() => undefined));
  await until('it has everything', async () => (await inHand()) === LIMIT);
  expect((await infer(producers[0]!, 1)).status).toBe(429);
  await victim.stop('SIGKILL');
  await Promise.all(lost);
  expect((await infer(producers[0]!, 1)).status).toBe(429);
  await until('its places are free', async () => (await inHand()) < LIMIT, 30_000);
  const response = await infer(producers[0]!, 1);
  expect(response.status).toBe(200);
});

test('a producer that leaves takes its counts along, and the last one leaves nothing', async () => {
  expect(await producers[0]!.stop()).toBe(0);
  expect(await looker.exists(LIMITS_KEY, LIMITS_PRODUCERS_KEY)).toBe(0);
});
