import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { VERSION } from '../../cli/version.ts';
import { makeFixtureRepository } from '../fixtures/make-models.ts';
import { type MillraceProcess, runMillrace, startMillrace } from '../support/process.ts';
import { type RedisServer, startRedis, until } from '../support/redis.ts';
import { scrape } from '../support/scrape.ts';
import { makeOneInstanceSlow } from '../support/slow-model.ts';

describe('millrace producer and worker', () => {
  let folder = '';
  let redis: RedisServer;
  let producer: MillraceProcess;
  let worker: MillraceProcess;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'millrace-e2e-'));
    makeFixtureRepository(folder, ['simple', 'rowsum']);
    makeOneInstanceSlow(folder);
    redis = await startRedis();
    producer = await startMillrace(['producer', '--log-info=false'], { env: { REDIS_URL: redis.url } });
  });
  afterAll(async () => {
    await Promise.all([producer.stop('SIGKILL'), worker.stop('SIGKILL')]);
    await redis.stop();
    await rm(folder, { recursive: true, force: true });
  });

  test('a producer without workers says what to start, and is not ready', async () => {
    expect(producer.stdout()).toBe(
      [
        `Millrace ${VERSION}, producer is ready`,
        '',
        '  models    none yet; start a worker: millrace worker --model-repository=DIR',
        `  HTTP      ${producer.url}  (a page to try it: ${producer.url}/)`,
        `  gRPC      ${producer.grpcAddress}`,
        `  metrics   ${producer.metricsUrl}`,
        `  dashboard ${producer.url}/dashboard/`,
        '',
        '',
      ].join('\n'),
    );
    expect((await fetch(`${producer.url}/v2/health/live`)).status).toBe(200);
    expect((await fetch(`${producer.url}/v2/health/ready`)).ok).toBe(false);
    expect((await fetch(`${producer.url}/dashboard/`)).status).toBe(200);
  });

  test('a worker says which models it has and where its metrics are', async () => {
    const env = { MILLRACE_REDIS: redis.url, MILLRACE_MODEL_REPOSITORY: folder };
    worker = await startMillrace(['worker', '--log-info=false'], { env });
    expect(worker.stdout()).toMatch(new RegExp(`^Millrace ${VERSION}, worker w[\\w-]+ is ready\n\n`));
    expect(worker.stdout().split('\n').slice(2)).toEqual([
      '  model     rowsum version 1 READY',
      '  model     simple version 1 READY',
      '  model     slow version 1 READY',
      `  metrics   ${worker.metricsUrl}`,
      '',
      '',
    ]);
    await until('the producer is ready', async () => (await fetch(`${producer.url}/v2/health/ready`)).ok);
  });

  test('both count a request that went through the queue', async () => {
    const inputs = [{ name: 'x', datatype: 'FP32', shape: [2, 2], data: [1, 2, 3, 4] }];
    const response = await infer('rowsum', inputs);
    expect(await response.json()).toMatchObject({ outputs: [{ data: [3, 7] }] });
    const labels = '{model="rowsum",version="1"}';
    for (const { metricsUrl } of [producer, worker]) {
      await until('it is counted', async () => {
        const samples = await scrape(metricsUrl);
        return samples.get(`nv_inference_request_success${labels}`) === 1;
      });
      expect((await scrape(metricsUrl)).get(`nv_inference_count${labels}`)).toBe(2);
    }
  });

  test('a producer that gets SIGTERM answers what is with the workers, and leaves with 0', async () => {
    // Each fills a batch, and batches run one after the other.
    const rows = [20, 1, 1, 1];
    const inputs = [{ name: 'x', datatype: 'INT64', shape: [4, 1], data: rows }];
    const answers = [1, 2, 3].map(() => infer('slow', inputs));
    await until('the worker has them', async () => {
      const samples = await scrape(worker.metricsUrl);
      return samples.get('nv_inference_pending_request_count{model="slow",version="1"}') === 2;
    });
    producer.kill('SIGTERM');
    for (const answer of answers) expect(await (await answer).json()).toMatchObject({ outputs: [{ data: rows }] });
    expect(await producer.exited).toBe(0);
  });

  test('a worker that gets SIGTERM leaves with 0', async () => {
    expect(await worker.stop()).toBe(0);
    expect(worker.stderr() + producer.stderr()).toBe('');
  });

  test('a worker that gets SIGTERM before it has joined leaves with 0 as well', async () => {
    const program = `import net from 'node:net';
      const { listen } = net.Server.prototype;
      net.Server.prototype.listen = function (...of) {
        this.once('listening', () => process.kill(process.pid, 'SIGTERM'));
        return listen.apply(this, of);
      };`;
    const env = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(program)}` };
    // Its metrics are served before it asks for Redis, which nobody is at this address.
    const args = ['worker', '--redis=redis://127.0.0.1:1', `--model-repository=${folder}`, '--metrics-port=0'];
    expect(await runMillrace(args, { env })).toMatchObject({ code: 0, signal: null });
  });

  function infer(model: string, inputs: object[]): Promise<Response> {
    return fetch(`${producer.url}/v2/models/${model}/infer`, { method: 'POST', body: JSON.stringify({ inputs }) });
  }
});
