import { afterEach, describe, expect, it } from 'vitest';
import { until } from '../support/redis.ts';
import { type Drill, startDrill } from './drill.ts';

/** About 5 ms of one core. */
const LOOPS = 15;

describe('a pool whose Redis is killed and started again', () => {
  let drill: Drill;
  afterEach(() => drill.close());

  it.each([
    ['with its data', true],
    ['empty', false],
  ])('goes on by itself, Redis %s: every request gets its answer or 503', async (_, persistent) => {
    drill = await startDrill({ persistent });
    const worker = await drill.worker();
    const producer = await drill.producer();
    const load = drill.load(producer, 60, LOOPS);
    await until('the pool has answered', async () => (await drill.queue.getCompletedCount()) > 10);
    await drill.redis.kill();
    await new Promise((resolve) => setTimeout(resolve, 3000));
    const refused = await drill.send(producer, LOOPS);
    expect(refused.status).toBe(503);
    expect(refused.endedMs - refused.startedMs).toBeLessThan(1000);
    await drill.redis.start();
    await until('a request is answered again', async () => (await drill.send(producer, LOOPS)).status === 200);
    load.stop();
    for (const { status, answer, value } of await drill.outcomes()) {
      if (status === 200) expect(answer).toBe(value);
      else expect([status, answer]).toEqual([503, expect.any(String)]);
    }
    const after = await Promise.all(Array.from({ length: 20 }, () => drill.send(producer, LOOPS)));
    expect(after.map((outcome) => outcome.answer)).toEqual(after.map((outcome) => outcome.value));
    worker.kill('SIGTERM');
    producer.kill('SIGTERM');
    expect([await worker.exited, await producer.exited]).toEqual([0, 0]);
  });

  it('answers within 10 s after Redis was silent for 20 s', async () => {
    drill = await startDrill();
    await drill.worker();
    const producer = await drill.producer();
    await drill.send(producer, LOOPS);
    process.kill(drill.redis.pid, 'SIGSTOP');
    await until('the producer refuses', async () => (await drill.send(producer, LOOPS)).status === 503);
    await new Promise((resolve) => setTimeout(resolve, 20_000));
    process.kill(drill.redis.pid, 'SIGCONT');
    const backMs = performance.now();
    await until('a request is answered again', async () => (await drill.send(producer, LOOPS)).status === 200, 30_000);
    expect(performance.now() - backMs).toBeLessThan(10_000);
  });
});
