import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startMillrace } from '../support/process.ts';
import { pythonWithClients, run } from '../support/python.ts';
import { type RedisServer, startRedis } from '../support/redis.ts';

let python = '';
let redis: RedisServer;
let folder = '';

beforeAll(async () => {
  python = await pythonWithClients();
  redis = await startRedis();
  folder = mkdtempSync(join(tmpdir(), 'millrace-keys-'));
});
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true });
  await redis.stop();
});

const env = { PYTHONDONTWRITEBYTECODE: '1' };

test('services without a producer enqueue with BullMQ for Python and with plain Redis, signed or not, and get the same answers', async () => {
  // In a pool that changes over to signatures; one that is wrong is refused there too.
  const signed = { MILLRACE_QUEUE_KEY_FILE: join(folder, 'queue.keys') };
  writeFileSync(signed.MILLRACE_QUEUE_KEY_FILE, `k1 ${randomBytes(32).toString('base64')}\n`);
  const worker = await startMillrace(['worker', '--model-repository=examples/models', '--metrics-port=0'], {
    env: { REDIS_URL: redis.url, MILLRACE_QUEUE_ACCEPT_UNSIGNED: 'true', ...signed },
  });
  const answers = new Set<string>();
  for (const program of ['with_bullmq.py', 'with_redis.py']) {
    const args = [`examples/enqueue/${program}`, 'digits_mlp', redis.url];
    for (const keys of [{}, signed]) {
      const { code, text } = await run(python, args, { env: { ...env, ...keys } });
      expect(code, text).toBe(0);
      expect(text.match(/^label \d probability 0\.\d+$/gm)).toHaveLength(3);
      answers.add(text);
    }
  }
  expect(answers.size).toBe(1);
  const wrong = await run(python, ['examples/enqueue/with_redis.py', 'minilm', redis.url], { env });
  expect(wrong.text).toContain('INVALID_ARGUMENT');
  await worker.stop();
});

test('nothing of their tensors and answers stays in Redis', async () => {
  const keys = await redis.client().keys('*');
  expect(keys.filter((key) => /\.(tensor|reply):/.test(key))).toEqual([]);
});
