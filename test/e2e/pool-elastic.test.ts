import { mkdtemp, rm } from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { PoolView } from '../../producer/pool/pool-view.ts';
import { makeFixtureRepository } from '../fixtures/make-models.ts';
import { type MillraceProcess, runMillrace, startMillrace } from '../support/process.ts';
import { type RedisServer, startRedis, until } from '../support/redis.ts';
import { scrape } from '../support/scrape.ts';
import { makeOneInstanceSlow } from '../support/slow-model.ts';

let folder = '';
let redis: RedisServer;
let producer: MillraceProcess;
let env: Record<string, string>;
const started: MillraceProcess[] = [];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'millrace-e2e-'));
  makeFixtureRepository(folder, ['rowsum']);
  makeOneInstanceSlow(folder);
  redis = await startRedis();
  env = { MILLRACE_REDIS: redis.url, MILLRACE_MODEL_REPOSITORY: folder };
  producer = await startMillrace(['producer', '--log-info=false', '--strict-readiness=false'], { env });
  started.push(producer);
});
afterAll(async () => {
  await Promise.all(started.map((each) => each.stop('SIGKILL')));
  await redis.stop();
  await rm(folder, { recursive: true, force: true });
});

async function startWorker(...args: string[]): Promise<MillraceProcess> {
  const worker = await startMillrace(['worker', '--log-info=false', ...args], { env });
  started.push(worker);
  return worker;
}

function nameOf(worker: MillraceProcess): string {
  return `${hostname()}:${worker.pid}`;
}

function pool(...args: string[]) {
  return runMillrace(['pool', ...args], { env: { MILLRACE_URL: producer.url } });
}

async function view(): Promise<PoolView> {
  return (await (await fetch(`${producer.url}/pool`)).json()) as PoolView;
}

async function slow(...rows: number[]): Promise<unknown> {
  const inputs = [{ name: 'x', datatype: 'INT64', shape: [rows.length, 1], data: rows }];
  const body = JSON.stringify({ inputs });
  const answer = await fetch(`${producer.url}/v2/models/slow/infer`, { method: 'POST', body });
  const { outputs, error } = (await answer.json()) as { outputs?: { data: number[] }[]; error?: string };
  return outputs?.[0]?.data ?? error;
}

describe('a pool that grows and shrinks', () => {
  let first: MillraceProcess;
  let second: MillraceProcess;

  test('is ready without workers where it is told to be, and says what it lacks', async () => {
    expect((await fetch(`${producer.url}/v2/health/ready`)).status).toBe(200);
    expect(await pool()).toMatchObject({
      code: 0,
      stderr: '',
      stdout: '0 workers, 0 desired for a latency goal of 1000 ms\n',
    });
  });

  test('lists its workers with their models, and what they have measured', async () => {
    [first, second] = await Promise.all([startWorker(), startWorker()]);
    await until('both are there', async () => (await view()).workers.length === 2);
    await Promise.all(Array.from({ length: 12 }, () => slow(2)));
    await until('the speed is known', async () => {
      const { models } = await view();
      return models.some(({ name, rows_per_second: speed }) => name === 'slow' && speed !== null);
    });
    const { code, stdout } = await pool('list');
    expect(code).toBe(0);
    const lines = stdout.split('\n');
    expect(lines[0]).toMatch(/^2 workers, \d+ desired for a latency goal of 1000 ms$/);
    expect(lines[2]).toMatch(/^worker +state +load +in hand +devices +last job +models$/);
    for (const worker of [first, second]) {
      expect(stdout).toMatch(
        new RegExp(`^${nameOf(worker)} +ready +\\d+% +\\d+ +\\d+ cpu +.+ +rowsum:1, slow:1$`, 'm'),
      );
    }
    expect(stdout).toMatch(/^slow +2 +\d+ +\d+ +[\d.]+ +[\d.]+ +\d+$/m);
    expect(stdout).toMatch(/^rowsum +2 +0 +0 +- +- +\d+$/m);
    const json = JSON.parse((await pool('--json')).stdout) as PoolView;
    expect(json.workers.map(({ name }) => name).sort()).toEqual([first, second].map(nameOf).sort());
  });

  test('tells an autoscaler on the port for metrics', async () => {
    const samples = await scrape(producer.metricsUrl);
    expect(samples.get('millrace_desired_workers')).toBeGreaterThanOrEqual(1);
    expect(samples.get('millrace_model_desired_workers{model="slow"}')).toBeGreaterThanOrEqual(1);
    expect(samples.get('millrace_workers{state="ready"}')).toBe(2);
    expect(samples.get('millrace_worker_rows_per_second{model="slow"}')).toBeGreaterThan(0);
  });

  test('drains one of two under load: everything is answered once, and the process ends with 0', async () => {
    const numbers = Array.from({ length: 60 }, (_, index) => 1 + (index % 5));
    const answers = numbers.map((number) => slow(number));
    await until('the first has some', async () => {
      const { workers } = await view();
      return workers.some(({ name, requests_in_hand: inHand }) => name === nameOf(first) && inHand > 0);
    });
    const drained = pool('drain', nameOf(first));
    expect(await Promise.all(answers)).toEqual(numbers.map((number) => [number]));
    expect(await first.exited).toBe(0);
    expect(await drained).toMatchObject({
      code: 0,
      stdout: `${nameOf(first)} is draining\n${nameOf(first)} has left\n`,
    });
    expect((await view()).workers.map(({ name }) => name)).toEqual([nameOf(second)]);
  });

  test('does not drain whom it does not know', async () => {
    const ended = await pool('drain', nameOf(first));
    expect(ended).toMatchObject({ code: 1, stderr: `millrace: no worker of the pool is called '${nameOf(first)}'\n` });
    const json = await pool('drain', 'nobody', '--json');
    expect(JSON.parse(json.stdout)).toMatchObject({ ok: false });
    expect((await pool('drain')).code).toBe(2);
    expect((await pool('dran', 'x')).stderr).toContain('did you mean drain?');
  });

  test('a worker says on the port for metrics that it lives and can work', async () => {
    const at = (path: string) => fetch(second.metricsUrl.replace('/metrics', path));
    expect((await at('/v2/health/live')).status).toBe(200);
    expect((await at('/v2/health/ready')).status).toBe(200);
    const running = slow(60); // longer than it takes until a worker's state is shown
    await until('it runs', async () => (await view()).workers[0]?.requests_in_hand === 1);
    second.kill('SIGTERM');
    await until('it is not ready', async () => (await at('/v2/health/ready')).status === 400);
    expect((await at('/v2/health/live')).status).toBe(200);
    expect(await running).toEqual([60]);
    expect(await second.exited).toBe(0);
  });
});

describe('a pool at zero workers', () => {
  test('takes a request, wishes for a worker, and answers when one has started', async () => {
    const answers = [1, 2, 3].map((number) => slow(number));
    await until('a worker is wished for', async () => {
      const { models, workers } = await view();
      const model = models.find(({ name }) => name === 'slow');
      return workers.length === 0 && model?.waiting_rows === 3 && model.desired_workers >= 1;
    });
    const worker = await startWorker('--idle-exit=1s');
    expect(await Promise.all(answers)).toEqual([[1], [2], [3]]);
    expect(await worker.exited).toBe(0);
  });

  test('loses nothing of what arrives while the last worker leaves for want of work', async () => {
    const worker = await startWorker('--idle-exit', '700ms');
    const state = { left: false };
    void worker.exited.then(() => (state.left = true));
    const answers: Promise<unknown>[] = [];
    // The pauses grow until one is long enough for the worker to leave.
    for (let pauseMs = 500; !state.left; pauseMs += 50) {
      answers.push(slow(1));
      await Promise.race([answers.at(-1), worker.exited]);
      await Promise.race([new Promise((resolve) => setTimeout(resolve, pauseMs)), worker.exited]);
    }
    answers.push(slow(2));
    expect(await worker.exited).toBe(0);
    const next = await startWorker();
    expect(new Set((await Promise.all(answers)).flat())).toEqual(new Set([1, 2]));
    expect(await next.stop()).toBe(0);
  });

  test('a time that is none is refused before anything starts', async () => {
    const ended = await runMillrace(['worker', '--idle-exit=soon'], { env });
    expect(ended.code).toBe(2);
    expect(ended.stderr).toContain('--idle-exit expects a time like 90s, 5m or 1h of at most 24 days, got "soon"');
  });
});

describe('the pool of one process', () => {
  test('is shown by serve in the same form, beyond loopback to those who know the header; it cannot be drained', async () => {
    const args = ['--log-info=false', '--http-address=0.0.0.0', '--http-restricted-api=pool:key=secret'];
    const serve = await startMillrace(['serve', ...args], { env });
    started.push(serve);
    expect((await fetch(`${serve.url}/pool`)).status).toBe(403);
    const clientEnv = { MILLRACE_URL: serve.url, MILLRACE_HEADER: 'key=secret' };
    const listed = await runMillrace(['pool', '--json'], { env: clientEnv });
    const shown = JSON.parse(listed.stdout) as PoolView;
    const inPool = await view();
    expect(Object.keys(shown)).toEqual(Object.keys(inPool));
    expect(shown).toMatchObject({ desired_workers: 1, workers: [{ id: 'serve', state: 'ready', pid: serve.pid }] });
    expect(shown.models.map(({ name }) => name)).toEqual(['rowsum', 'slow']);
    const drained = await runMillrace(['pool', 'drain', 'serve'], { env: clientEnv });
    expect(drained.code).toBe(1);
    expect(drained.stderr).toContain('cannot be drained');
    await serve.stop();
  });
});
