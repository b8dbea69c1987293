import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { until } from '../support/redis.ts';
import { type Drill, type Outcome, startDrill } from './drill.ts';

/** About 10 ms of one core. */
const LOOPS = 30;

describe('a pool of worker processes', () => {
  let drill: Drill;
  beforeEach(async () => {
    drill = await startDrill();
  });
  afterEach(() => drill.close());

  function expectAllAnswered(outcomes: readonly Outcome[], atLeast: number): void {
    expect(outcomes.length).toBeGreaterThanOrEqual(atLeast);
    expect(outcomes.filter((outcome) => outcome.status !== 200 || outcome.answer !== outcome.value)).toEqual([]);
  }

  it('loses nothing and recovers within 13 s when one is killed in mid-batch under load', async () => {
    const [victim] = await Promise.all([drill.worker(), drill.worker()]);
    const producer = await drill.producer();
    const load = drill.load(producer, 100, LOOPS);
    await until('the pool has answered', async () => (await drill.queue.getCompletedCount()) > 20);
    await drill.working(victim);
    victim.kill('SIGKILL');
    const killedMs = performance.now();
    await new Promise((resolve) => setTimeout(resolve, 1000));
    load.stop();
    const outcomes = await drill.outcomes();
    expectAllAnswered(outcomes, 50);
    const lastMs = Math.max(...outcomes.map((outcome) => outcome.endedMs)) - killedMs;
    expect(lastMs).toBeLessThan(13_000);
    expect(await drill.queue.getJobCountByTypes('active', 'waiting', 'failed')).toBe(0);
  });

  it('goes on when the only one is killed in mid-batch and another is started', async () => {
    const victim = await drill.worker();
    const producer = await drill.producer();
    const sent = Array.from({ length: 40 }, () => drill.send(producer, 10 * LOOPS));
    await drill.working(victim);
    victim.kill('SIGKILL');
    await victim.exited;
    await drill.worker();
    await Promise.all(sent);
    expectAllAnswered(await drill.outcomes(), 40);
  });

  it('ends with 0 on SIGTERM, answers what runs and leaves the rest to others at once', async () => {
    const leaving = await drill.worker();
    const producer = await drill.producer();
    const sent = Array.from({ length: 64 }, () => drill.send(producer, 60 * LOOPS));
    await drill.working(leaving);
    const other = await drill.worker();
    leaving.kill('SIGTERM');
    expect(await leaving.exited).toBe(0);
    const name = `:${leaving.pid}`;
    const stranded = (await drill.queue.getActive()).filter((job) => job.processedBy?.endsWith(name));
    expect(stranded).toEqual([]);
    await Promise.all(sent);
    expectAllAnswered(await drill.outcomes(), 64);
    other.kill('SIGTERM');
    expect(await other.exited).toBe(0);
  });

  it('ends with 0 on SIGTERM when idle', async () => {
    const worker = await drill.worker();
    const producer = await drill.producer();
    worker.kill('SIGTERM');
    producer.kill('SIGTERM');
    expect(await worker.exited).toBe(0);
    expect(await producer.exited).toBe(0);
  });

  it('answers once when one was only taken for dead', async () => {
    const [victim] = await Promise.all([drill.worker(), drill.worker()]);
    const producer = await drill.producer();
    const load = drill.load(producer, 60, LOOPS);
    await drill.working(victim);
    victim.kill('SIGSTOP');
    await new Promise((resolve) => setTimeout(resolve, 1000));
    load.stop();
    expectAllAnswered(await drill.outcomes(), 30);
    victim.kill('SIGCONT');
    await Promise.all(Array.from({ length: 20 }, () => drill.send(producer, LOOPS)));
    expectAllAnswered(await drill.outcomes(), 20);
    await until('nothing is left', async () => (await drill.queue.getJobCountByTypes('active', 'waiting')) === 0);
  });

  it('answers 503 with the reason at the deadline when nobody is left', async () => {
    const worker = await drill.worker();
    const producer = await drill.producer({ args: ['--request-timeout-ms=1500'] });
    worker.kill('SIGTERM');
    await worker.exited;
    const { status, answer } = await drill.send(producer, LOOPS);
    expect(status).toBe(503);
    expect(answer).toMatch(/no worker serves model 'slow_batched' now: the request waited \d+ ms in the queue/);
    const ready = await fetch(`${producer.url}/v2/health/ready`);
    expect(ready.status).not.toBe(200);
  });

  it('keeps deadlines when the producer’s date is ten minutes off', async () => {
    await drill.worker();
    for (const offsetMs of [600_000, -600_000]) {
      const shift = encodeURIComponent(`const now = Date.now; Date.now = () => now() + (${offsetMs});`);
      const producer = await drill.producer({ env: { NODE_OPTIONS: `--import=data:text/javascript,${shift}` } });
      await Promise.all(Array.from({ length: 5 }, () => drill.send(producer, LOOPS)));
      expectAllAnswered(await drill.outcomes(), 5);
    }
  });
});
