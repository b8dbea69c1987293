import { Queue } from 'bullmq';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { QUEUE_PREFIX, queueName } from '../../shared/wire/names.ts';
import { launchBrowser, openPage } from '../support/browser.ts';
import { type MillraceProcess, startMillrace } from '../support/process.ts';
import { type RedisServer, startRedis, until } from '../support/redis.ts';

const TOKEN = 'correct-horse';

describe('the queue dashboard in a browser', () => {
  let redis: RedisServer;
  let browser: Browser;
  let worker: MillraceProcess;
  let producer: MillraceProcess;

  beforeAll(async () => {
    [redis, browser] = await Promise.all([startRedis(), launchBrowser()]);
    const pool = `--redis=${redis.url}`;
    worker = await startMillrace(['worker', pool, '--model-repository=examples/models']);
    producer = await startMillrace(['producer', pool, '--dashboard-token', TOKEN]);
    await until('the producer is ready', async () => (await fetch(`${producer.url}/v2/health/ready`)).ok);
  });
  afterAll(async () => {
    await browser.close();
    await Promise.all([producer.stop(), worker.stop()]);
    await redis.stop();
  });

  it('is linked from the start page and shows a queue for each model, calling nobody else', async () => {
    const { page, problems } = await openPage(browser, `${producer.url}/`, {
      httpCredentials: { username: 'anyone', password: TOKEN },
    });
    await page.getByText('4 of 4 ready').waitFor();
    await page.getByRole('link', { name: 'Queue dashboard' }).click();
    for (const name of ['efficientnet_lite0_int8', 'minilm', 'magika', 'digits_mlp']) {
      await page.getByText(name).first().waitFor();
    }
    expect(problems).toEqual([]);
  });

  it('shows what a bundle is about, why a job failed, and why it cannot be tried again', async () => {
    const shape = [1, 64];
    const inputs = [{ name: 'pixels', datatype: 'FP32', shape, data: Array<number>(64).fill(0.5) }];
    const infer = `${producer.url}/v2/models/digits_mlp/infer`;
    expect((await fetch(infer, { method: 'POST', body: JSON.stringify({ inputs }) })).status).toBe(200);
    const queue = new Queue(queueName('digits_mlp'), { connection: redis.client(), prefix: QUEUE_PREFIX });
    const lost = { name: 'pixels', datatype: 'FP32', shape, byteLength: 256, offset: 0 };
    const items = [{ sequence: 1, callId: 'a-call', inputs: [lost] }];
    const job = await queue.add('infer', { v: 1, producer: 'somebody', bundle: 'b1', model: 'digits_mlp', items });
    await until('it failed', async () => (await job.getState()) === 'failed');
    const { page } = await openPage(browser, `${producer.url}/dashboard/queue/digits_mlp?status=failed`, {
      httpCredentials: { username: 'anyone', password: TOKEN },
    });
    await page.getByText('UNAVAILABLE: the tensors of the request are no longer in the queue').first().waitFor();
    // The buttons of a job have a picture for a name.
    await page.locator('li button:has(.lucide-refresh-cw)').first().click();
    await page.getByRole('button', { name: 'Confirm' }).click();
    await page.getByText('its tensors are not in Redis any more').first().waitFor();
    await page.goto(`${producer.url}/dashboard/queue/digits_mlp?status=completed`);
    for (const text of ['requests:', '"pixels FP32 [1,64]"', 'succeeded:'])
      await page.getByText(text).first().waitFor();
    await queue.close();
  });

  it('is closed to whoever has no token', async () => {
    for (const path of ['/dashboard', '/dashboard/', '/dashboard/api/queues']) {
      const response = await fetch(`${producer.url}${path}`);
      expect(response.status).toBe(401);
      expect(response.headers.get('www-authenticate')).toMatch(/^Basic/);
    }
  });
});
