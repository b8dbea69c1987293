import { cpSync, existsSync, mkdtempSync, rmSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Queue } from 'bullmq';
import { QUEUE_PREFIX, queueName } from '../../shared/wire/names.ts';
import { type MillraceProcess, type ProcessOptions, startMillrace } from '../support/process.ts';
import { type RedisServer, type RedisServerOptions, startRedis, until } from '../support/redis.ts';
import { isFast, isGood } from './drill-report.ts';

/** A model that answers its input after as many rounds of work as the request wants; up to 8 requests a batch. */
export const MODEL = 'slow_batched';

const fixtures = fileURLToPath(new URL('../../../shared/conformance/models/', import.meta.url));

/** What a process of the pool is started with, beside what each needs. */
interface Start extends ProcessOptions {
  readonly args?: readonly string[];
}

export interface Outcome {
  readonly value: number;
  readonly status: number;
  /** What came back: the value, or the error's text. */
  readonly answer: number | string;
  readonly startedMs: number;
  readonly endedMs: number;
}

/** A pool of real processes around one Redis, and a client that sends it requests. */
export class Drill {
  readonly redis: RedisServer;
  /** For looking. */
  readonly queue: Queue;
  /** The folder of the models that workers are started with. */
  readonly models: string;
  readonly #processes: MillraceProcess[] = [];
  readonly #outcomes: Promise<Outcome>[] = [];
  /** How the processes of the pool reach Redis. */
  readonly #url: string;
  #ended: Outcome[] = [];
  #jobsTaken = 0;
  #next = 0;

  constructor(redis: RedisServer, models: string, url = redis.url) {
    this.redis = redis;
    this.models = models;
    this.#url = url;
    this.queue = new Queue(queueName(MODEL), { connection: redis.client(), prefix: QUEUE_PREFIX });
    this.queue.on('error', () => undefined);
  }

  worker({ args = [], ...options }: Start = {}): Promise<MillraceProcess> {
    const own = ['worker', `--redis=${this.#url}`, `--model-repository=${this.models}`];
    return this.#start([...own, ...args], options);
  }

  producer({ args = [], ...options }: Start = {}): Promise<MillraceProcess> {
    return this.#start(['producer', `--redis=${this.#url}`, ...args], options);
  }

  /** Waits until the producer knows that the model is served. */
  async known(producer: MillraceProcess): Promise<void> {
    await until('the model is ready', async () => (await fetch(`${producer.url}/v2/models/${MODEL}/ready`)).ok);
  }

  async #start(args: readonly string[], options: ProcessOptions): Promise<MillraceProcess> {
    const process = await startMillrace(args, options);
    this.#processes.push(process);
    return process;
  }

  /** Sends one request; its outcome is kept for `outcomes`. Never rejects. */
  send(producer: MillraceProcess, loops: number): Promise<Outcome> {
    return this.#keep(infer(producer.url, this.#number(), loops));
  }

  /** Submits one job, by `submitAt`, and asks `fetchAt` for its result, as if it were one request. Never rejects. */
  sendJob(submitAt: MillraceProcess, fetchAt: MillraceProcess, loops: number): Promise<Outcome> {
    return this.#keep(runAsJob(submitAt.url, fetchAt.url, this.#number(), loops, () => (this.#jobsTaken += 1)));
  }

  /** Jobs whose 202 has come. */
  get jobsTaken(): number {
    return this.#jobsTaken;
  }

  #number(): number {
    this.#next += 1;
    return this.#next;
  }

  #keep(outcome: Promise<Outcome>): Promise<Outcome> {
    this.#outcomes.push(outcome);
    void outcome.then((ended) => this.#ended.push(ended));
    return outcome;
  }

  /** Sends `perSecond` requests a second, whatever becomes of them, until told to stop. */
  load(producer: MillraceProcess, perSecond: number, loops: number): { stop(): void } {
    const timer = setInterval(() => void this.send(producer, loops), 1000 / perSecond);
    return { stop: () => clearInterval(timer) };
  }

  /** Waits until answers come as before, to `count` requests in a row that were sent from now on. */
  async steady(timeoutMs = 60_000, count = 20): Promise<void> {
    this.#ended = [];
    const sinceMs = performance.now();
    await until(
      'answers come as before',
      () => {
        const last = this.#ended.filter(({ startedMs }) => startedMs >= sinceMs).slice(-count);
        return last.length === count && last.every((outcome) => isGood(outcome) && isFast(outcome));
      },
      timeoutMs,
    );
  }

  /** All outcomes since the start or the last time they were asked for. */
  outcomes(): Promise<Outcome[]> {
    return Promise.all(this.#outcomes.splice(0));
  }

  /** Waits until the worker has a job in hand. */
  async working(worker: MillraceProcess): Promise<void> {
    const name = `${hostname()}:${worker.pid}`;
    await until(`worker ${worker.pid} has work`, async () => {
      const jobs = await this.queue.getActive();
      return jobs.some((job) => (job as typeof job | undefined)?.processedBy === name);
    });
  }

  async close(): Promise<void> {
    for (const process of this.#processes) process.kill('SIGKILL');
    await Promise.all(this.#processes.map((process) => process.exited));
    await this.queue.close();
    await this.redis.stop();
    rmSync(this.models, { recursive: true, force: true });
  }
}

export async function startDrill(options?: RedisServerOptions): Promise<Drill> {
  return drillOn(await startRedis(options));
}

/** A drill on a Redis that is there, which it stops at its end. `url` is how its processes reach it. */
export function drillOn(redis: RedisServer, url?: string): Drill {
  if (!existsSync(fixtures)) throw new Error('the models of ../shared/conformance are missing');
  const models = mkdtempSync(join(tmpdir(), 'millrace-models-'));
  cpSync(join(fixtures, MODEL), join(models, MODEL), { recursive: true });
  return new Drill(redis, models, url);
}

const PATIENCE_MS = 100_000;

function infer(url: string, value: number, loops: number): Promise<Outcome> {
  return outcomeOf(value, () => post(`${url}/v2/models/${MODEL}/infer`, value, loops));
}

function runAsJob(
  submitAt: string,
  fetchAt: string,
  value: number,
  loops: number,
  onTaken: () => void,
): Promise<Outcome> {
  return outcomeOf(value, async () => {
    const taken = await post(`${submitAt}/v2/models/${MODEL}/jobs?attempts=10`, value, loops);
    const location = taken.headers.get('location');
    if (taken.status !== 202 || location === null) return taken;
    await taken.arrayBuffer();
    onTaken();
    const signal = AbortSignal.timeout(PATIENCE_MS);
    // Whatever becomes of the connection meanwhile: the job is in Redis.
    for (;;) {
      try {
        const result = await fetch(`${fetchAt}${location}/result?wait=30s`, { signal });
        if (result.status !== 202 && result.status !== 503) return result;
        await result.arrayBuffer();
      } catch (error) {
        if (signal.aborted) throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  });
}

function post(url: string, value: number, loops: number): Promise<Response> {
  const inputs = [
    { name: 'INPUT', datatype: 'FP32', shape: [1, 1], data: [value] },
    { name: 'LOOPS', datatype: 'INT64', shape: [1, 1], data: [loops] },
  ];
  const signal = AbortSignal.timeout(PATIENCE_MS);
  return fetch(url, { method: 'POST', body: JSON.stringify({ inputs }), signal });
}

async function outcomeOf(value: number, ask: () => Promise<Response>): Promise<Outcome> {
  const startedMs = performance.now();
  const outcome = (status: number, answer: number | string): Outcome => {
    return { value, status, answer, startedMs, endedMs: performance.now() };
  };
  try {
    const response = await ask();
    const body = (await response.json()) as { error?: string; outputs?: { data: number[] }[] };
    return outcome(response.status, body.outputs?.[0]?.data[0] ?? body.error ?? '');
  } catch (error) {
    return outcome(0, String(error));
  }
}
