import { cpSync, existsSync, mkdtempSync, rmSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Queue } from 'bullmq';
import { QUEUE_PREFIX, queueName } from '../../shared/wire/names.ts';
import { type MillraceProcess, startMillrace } from '../support/process.ts';
import { type RedisServer, type RedisServerOptions, startRedis, until } from '../support/redis.ts';

/** A model that answers its input after as many rounds of work as the request wants; up to 8 requests a batch. */
export const MODEL = 'slow_batched';

const fixtures = fileURLToPath(new URL('../../../shared/conformance/models/', import.meta.url));

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
  readonly #models: string;
  readonly #processes: MillraceProcess[] = [];
  readonly #outcomes: Promise<Outcome>[] = [];
  #next = 0;

  constructor(redis: RedisServer, models: string) {
    this.redis = redis;
    this.#models = models;
    this.queue = new Queue(queueName(MODEL), { connection: redis.client(), prefix: QUEUE_PREFIX });
    this.queue.on('error', () => undefined);
  }

  worker(): Promise<MillraceProcess> {
    return this.#start(['worker', `--redis=${this.redis.url}`, `--model-repository=${this.#models}`]);
  }

  producer(
    options: { args?: readonly string[]; env?: Readonly<Record<string, string>> } = {},
  ): Promise<MillraceProcess> {
    const { args = [], env = {} } = options;
    return this.#start(['producer', `--redis=${this.redis.url}`, ...args], env);
  }

  async #start(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<MillraceProcess> {
    const process = await startMillrace(args, { env });
    this.#processes.push(process);
    return process;
  }

  /** Sends one request; its outcome is kept for `outcomes`. Never rejects. */
  send(producer: MillraceProcess, loops: number): Promise<Outcome> {
    this.#next += 1;
    const outcome = infer(producer.url, this.#next, loops);
    this.#outcomes.push(outcome);
    return outcome;
  }

  /** Sends `perSecond` requests a second, whatever becomes of them, until told to stop. */
  load(producer: MillraceProcess, perSecond: number, loops: number): { stop(): void } {
    const timer = setInterval(() => void this.send(producer, loops), 1000 / perSecond);
    return { stop: () => clearInterval(timer) };
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
    rmSync(this.#models, { recursive: true, force: true });
  }
}

export async function startDrill(options?: RedisServerOptions): Promise<Drill> {
  if (!existsSync(fixtures)) throw new Error('the models of ../shared/conformance are missing');
  const models = mkdtempSync(join(tmpdir(), 'millrace-models-'));
  cpSync(join(fixtures, MODEL), join(models, MODEL), { recursive: true });
  return new Drill(await startRedis(options), models);
}

const PATIENCE_MS = 40_000;

async function infer(url: string, value: number, loops: number): Promise<Outcome> {
  const startedMs = performance.now();
  const outcome = (status: number, answer: number | string): Outcome => {
    return { value, status, answer, startedMs, endedMs: performance.now() };
  };
  try {
    const response = await fetch(`${url}/v2/models/${MODEL}/infer`, {
      method: 'POST',
      body: JSON.stringify({
        inputs: [
          { name: 'INPUT', datatype: 'FP32', shape: [1, 1], data: [value] },
          { name: 'LOOPS', datatype: 'INT64', shape: [1, 1], data: [loops] },
        ],
      }),
      signal: AbortSignal.timeout(PATIENCE_MS),
    });
    const body = (await response.json()) as { error?: string; outputs?: { data: number[] }[] };
    return outcome(response.status, body.outputs?.[0]?.data[0] ?? body.error ?? '');
  } catch (error) {
    return outcome(0, String(error));
  }
}
