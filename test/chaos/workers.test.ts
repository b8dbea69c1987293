import { afterEach, beforeEach, describe, expect, it } from 'vitest';
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
});
