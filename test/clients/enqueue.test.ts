import { afterAll, beforeAll, expect, test } from 'vitest';
import { startMillrace } from '../support/process.ts';
import { pythonWithClients, run } from '../support/python.ts';
import { type RedisServer, startRedis } from '../support/redis.ts';

let python = '';
let redis: RedisServer;

beforeAll(async () => {
  python = await pythonWithClients();
  redis = await startRedis();
});
afterAll(() => redis.stop());

const env = { PYTHONDONTWRITEBYTECODE: '1' };

test('services without a producer enqueue with BullMQ for Python and with plain Redis, and get the same answers', async () => {
  const worker = await startMillrace(['worker', '--model-repository=examples/models', '--metrics-port=0'], {
    env: { REDIS_URL: redis.url },
  });
  const answers: string[] = [];
  for (const program of ['with_bullmq.py', 'with_redis.py']) {
    const args = [`examples/enqueue/${program}`, 'digits_mlp', redis.url];
    const { code, text } = await run(python, args, { env });
    expect(code, text).toBe(0);
    expect(text.match(/^label \d probability 0\.\d+$/gm)).toHaveLength(3);
    answers.push(text);
  }
  expect(answers[1]).toBe(answers[0]);
  const wrong = await run(python, ['examples/enqueue/with_redis.py', 'minilm', redis.url], { env });
  expect(wrong.text).toContain('INVALID_ARGUMENT');
  await worker.stop();
});

test('nothing of their tensors and answers stays in Redis', async () => {
  const keys = await redis.client().keys('*');
  expect(keys.filter((key) => /\.(tensor|reply):/.test(key))).toEqual([]);
});
