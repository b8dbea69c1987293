import { Agent, request } from 'node:http';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { makeFixtureRepository } from '../fixtures/make-models.ts';
import { makeOneInstanceSlow } from '../support/slow-model.ts';
import { type MillraceProcess, startMillrace } from '../support/process.ts';
import { until } from '../support/redis.ts';
import { scrape } from '../support/scrape.ts';

/** One unit is some 50 ms of work. */
const SHORT = 20;
const ENDLESS = 1_000_000;

let folder = '';

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'millrace-e2e-'));
  makeFixtureRepository(folder, ['simple']);
  makeOneInstanceSlow(folder);
});
afterAll(() => rm(folder, { recursive: true, force: true }));

describe.each(['SIGTERM', 'SIGINT'] as const)('%s', (signal) => {
  test('while requests run and wait: all are answered, new ones are not taken, and it leaves with 0', async () => {
    const serve = await start();
    const answers = [SHORT, SHORT + 1, SHORT + 2].map((units) => inferSlow(serve, units));
    await until('one runs and two wait', async () => (await pending(serve)) === 2);
    serve.kill(signal);
    await until('new requests are refused', () => isRefused(serve));
    const bodies = await Promise.all(answers.map(async (answer) => (await answer).json()));
    expect(bodies).toMatchObject([SHORT, SHORT + 1, SHORT + 2].map((units) => ({ outputs: [{ data: rows(units) }] })));
    expect(await serve.exited).toBe(0);
    expect(await isRefused(serve)).toBe(true);
  });

  test('while nothing runs: an idle connection does not hold it back', async () => {
    const serve = await start();
    const agent = new Agent({ keepAlive: true });
    await getOnce(`${serve.url}/v2/health/live`, agent);
    expect(await serve.stop(signal)).toBe(0);
    agent.destroy();
  });
});

describe('SIGTERM', () => {
  test('a second one ends the process at once, whatever runs', async () => {
    const serve = await start();
    const answer = statusOrCut(inferSlow(serve, ENDLESS));
    await until('it runs', () => isRunning(serve));
    serve.kill('SIGTERM');
    await until('it drains', () => isRefused(serve));
    serve.kill('SIGTERM');
    expect(await serve.exited).not.toBe(0);
    expect(await answer).toBe('cut');
  });

  test('ends a run that is not over after --exit-timeout-secs, and the process with it', async () => {
    const serve = await start('--exit-timeout-secs=1');
    const answer = statusOrCut(inferSlow(serve, ENDLESS));
    await until('it runs', () => isRunning(serve));
    serve.kill('SIGTERM');
    expect(['cut', 503]).toContain(await answer);
    await serve.exited;
  });
});

function start(...options: string[]): Promise<MillraceProcess> {
  return startMillrace(['serve', `--model-repository=${folder}`, '--log-info=false', ...options]);
}

/** A batch of its own: the model takes four rows at most. */
function inferSlow(serve: MillraceProcess, units: number): Promise<Response> {
  const inputs = [{ name: 'x', datatype: 'INT64', shape: [4, 1], data: rows(units) }];
  return fetch(`${serve.url}/v2/models/slow/infer`, { method: 'POST', body: JSON.stringify({ inputs }) });
}

function rows(units: number): number[] {
  return [units, 1, 1, 1];
}

function statusOrCut(answer: Promise<Response>): Promise<number | 'cut'> {
  return answer.then(
    ({ status }) => status,
    () => 'cut' as const,
  );
}

async function pending(serve: MillraceProcess): Promise<number | undefined> {
  return (await scrape(serve.metricsUrl)).get('nv_inference_pending_request_count{model="slow",version="1"}');
}

/** The model has one instance: when a second request waits, the first runs. */
async function isRunning(serve: MillraceProcess): Promise<boolean> {
  const second = new AbortController();
  const inputs = [{ name: 'x', datatype: 'INT64', shape: [4, 1], data: rows(1) }];
  const waiting = fetch(`${serve.url}/v2/models/slow/infer`, {
    method: 'POST',
    body: JSON.stringify({ inputs }),
    signal: second.signal,
  }).catch(() => undefined);
  await until('a second request waits', async () => (await pending(serve)) === 1);
  second.abort();
  await waiting;
  return true;
}

async function isRefused({ url }: MillraceProcess): Promise<boolean> {
  const response = await fetch(`${url}/v2/models/simple`, { headers: { connection: 'close' } }).catch(() => undefined);
  return response === undefined || response.status === 503;
}

function getOnce(url: string, agent: Agent): Promise<void> {
  return new Promise((resolve, reject) => {
    request(url, { agent }, (response) => response.resume().once('end', resolve))
      .once('error', reject)
      .end();
  });
}
