import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
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

  it('is closed to whoever has no token', async () => {
    for (const path of ['/dashboard', '/dashboard/', '/dashboard/api/queues']) {
      const response = await fetch(`${producer.url}${path}`);
      expect(response.status).toBe(401);
      expect(response.headers.get('www-authenticate')).toMatch(/^Basic/);
    }
  });
});
