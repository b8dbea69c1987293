import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { afterEach, expect, it } from 'vitest';
import { createQueueDispatcher } from '../../producer/dispatch/queue-dispatcher.ts';
import { silentLogger } from '../../shared/runtime/logger.ts';
import { type RedisServer, startRedis, until } from '../support/redis.ts';
import { callOf, requestOf } from '../support/worker.ts';
import { report } from './drill-report.ts';

const program = fileURLToPath(new URL('poison-worker.mjs', import.meta.url));

let redis: RedisServer;
let worker: ChildProcess;
let deaths = 0;
let over = false;

/** Keeps one worker process alive, as a supervisor does. */
function supervise(): void {
  worker = spawn(process.execPath, [program, redis.url], { stdio: 'ignore' });
  worker.once('exit', () => {
    if (over) return;
    deaths += 1;
    supervise();
  });
}

afterEach(async () => {
  over = true;
  worker.kill('SIGKILL');
  await redis.stop();
});

it('D06: a request kills every worker that runs it', async (context) => {
  redis = await startRedis();
  supervise();
  const producer = await createQueueDispatcher({ redisUrl: redis.url, logger: silentLogger });
  await until('the worker is there', () => producer.catalog.ready());
  const texts = ['one', 'poison', 'two', 'three'];
  const startedMs = performance.now();
  const send = (text: string) => {
    const data = Buffer.from(text);
    const x = { name: 'x', datatype: 'UINT8', shape: [1, data.byteLength], data } as const;
    return producer.infer(requestOf('fragile', data, { inputs: [x] }), callOf(150_000));
  };
  const [one, poison, two, three] = await Promise.allSettled(texts.map(send));
  for (const [index, result] of [one, two, three].entries()) {
    expect(result).toMatchObject({ status: 'fulfilled' });
    const answer = result?.status === 'fulfilled' ? Buffer.from(result.value.outputs[0]!.data).toString() : '';
    expect(answer).toBe(['one', 'two', 'three'][index]);
  }
  expect(poison).toMatchObject({ status: 'rejected', reason: { code: 'INTERNAL' } });
  expect(String(poison?.status === 'rejected' && poison.reason)).toMatch(/given up: \d workers were lost/);
  expect(deaths).toBe(4);
  expect(Buffer.from((await send('after')).outputs[0]!.data).toString()).toBe('after');
  const endedMs = performance.now();
  // The guilty one is refused for good, which is its right answer here.
  const outcomes = texts.map((_, value) => ({ value, status: 200, answer: value, startedMs, endedMs }));
  report(context, outcomes, startedMs);
  await producer.close(1000);
});
