import { describe, expect, it } from 'vitest';
import { InferError } from '../../../../../shared/errors.ts';
import type { ParameterValue } from '../../../../../shared/infer/request.ts';
import { AGED_AFTER_MS, AGED_TURN_EVERY } from '../../../../../worker/engine/schedule/aged-turns.ts';
import type { BatchLimits } from '../../../../../worker/engine/schedule/batch-policy.ts';
import { DynamicBatchScheduler } from '../../../../../worker/engine/schedule/dynamic-batch-scheduler.ts';
import type { LevelPolicy, QueuePolicy } from '../../../../../worker/engine/schedule/queue-policy.ts';
import { settle } from '../support/fake-instance.ts';
import { modelPlan } from '../support/plans.ts';
import { callAt, request, schedulerParts } from '../support/scheduler-kit.ts';

const FREE: LevelPolicy = { maxQueueSize: Infinity, timeoutMs: Infinity, allowsOverride: true, delays: false };

function create(
  { own = {}, ...policy }: Partial<QueuePolicy> & { own?: Partial<LevelPolicy> },
  limits: Partial<BatchLimits> = {},
  overrides: Parameters<typeof schedulerParts>[0] = {},
) {
  const { maxRows = 1 } = limits;
  const parts = schedulerParts({ plan: modelPlan({ maxRows }), ...overrides });
  const scheduler = new DynamicBatchScheduler(
    parts,
    { maxRows, preferredRows: [maxRows], delayMs: 0, ...limits },
    { levels: 1, defaultLevel: 1, defaultPolicy: { ...FREE, ...own }, policies: new Map(), reorders: true, ...policy },
  );
  const send = (
    value: number,
    { priority = 0, timeout, columns = 1 }: { priority?: number; timeout?: ParameterValue; columns?: number } = {},
  ) => {
    const call = callAt(parts.clock, Infinity, priority);
    const values = new Array<number>(columns).fill(value);
    const parameters = timeout === undefined ? {} : { timeout };
    const result = scheduler.enqueue({ ...request(values, columns), parameters }, call);
    result.catch(() => {}); // the tests look at it later
    return { call, result };
  };
  const instance = parts.instances[0]!;
  const finish = async () => {
    instance.runs.at(-1)!.finish();
    await settle();
  };
  return { ...parts, scheduler, send, instance, finish };
}

const failure = (result: Promise<unknown>) =>
  result.then(
    () => undefined,
    (error: unknown) => error as InferError,
  );

describe('a queue with priority levels', () => {
  it('runs the most urgent level first, and a level in the order of arrival', async () => {
    const { send, finish, instance } = create({ levels: 3, defaultLevel: 2 });
    send(0);
    for (const [value, priority] of [
      [1, 3],
      [2, 2],
      [3, 1],
      [4, 3],
      [5, 2],
      [6, 1],
    ] as const) {
      send(value, { priority });
    }
    for (let i = 0; i < 6; i += 1) await finish();
    expect(instance.batches.flat()).toEqual([0, 3, 6, 2, 5, 1, 4]);
  });

  it('takes 0 and what is above the levels for the default level', async () => {
    const { send, finish, instance } = create({ levels: 3, defaultLevel: 2 });
    send(0);
    send(1, { priority: 3 });
    send(2, { priority: 0 });
    send(3, { priority: 9 });
    send(4, { priority: 1 });
    for (let i = 0; i < 4; i += 1) await finish();
    expect(instance.batches.flat()).toEqual([0, 4, 2, 3, 1]);
  });

  it('fills a batch across levels, in their order', async () => {
    const { send, finish, instance } = create({ levels: 2, defaultLevel: 2 }, { maxRows: 4 });
    send(0);
    for (const value of [1, 2, 3]) send(value, { priority: 2 });
    for (const value of [4, 5]) send(value, { priority: 1 });
    await finish();
    expect(instance.batches[1]).toEqual([4, 5, 1, 2]);
  });

  it('runs full batches only under a backlog of 40 and of 80 rows in all levels with a maximum of 20 (C07)', async () => {
    for (const count of [40, 80]) {
      const { send, finish, instance } = create({ levels: 4, defaultLevel: 4 }, { maxRows: 20 });
      send(0);
      for (let i = 0; i < count; i += 1) send(i, { priority: (i % 4) + 1 });
      for (let i = 0; i < 1 + count / 20; i += 1) await finish();
      expect(instance.batches.map((batch) => batch.length)).toEqual([1, ...new Array<number>(count / 20).fill(20)]);
    }
  });

  it('counts the delay from the oldest request, not from the most urgent one', () => {
    const { send, clock, instance } = create({ levels: 2, defaultLevel: 2 }, { maxRows: 8, delayMs: 10 });
    send(1, { priority: 2 });
    clock.advance(6);
    send(2, { priority: 1 });
    clock.advance(3);
    expect(instance.runs).toHaveLength(0);
    clock.advance(1);
    expect(instance.batches).toEqual([[2, 1]]);
  });

  it('runs another shape whose delay is over while the most urgent one waits for company', () => {
    const { send, clock, instance } = create({ levels: 2, defaultLevel: 2 }, { maxRows: 8, delayMs: 10 });
    send(1, { priority: 2, columns: 2 });
    clock.advance(8);
    send(2, { priority: 1 });
    clock.advance(2);
    expect(instance.batches).toEqual([[1, 1]]);
  });

  it('runs the shape of the most urgent request first', async () => {
    const { send, finish, instance } = create({ levels: 2, defaultLevel: 2 }, { maxRows: 8 });
    send(0);
    send(1, { priority: 2 });
    send(2, { priority: 1, columns: 2 });
    await finish();
    expect(instance.batches[1]).toEqual([2, 2]);
  });

  it('leaves a cancelled request out, wherever it stands', async () => {
    const { send, finish, scheduler, instance } = create({ levels: 2, defaultLevel: 2 });
    send(0);
    const sent = [1, 2, 3].flatMap((value) => [send(value, { priority: 2 }), send(10 * value, { priority: 1 })]);
    for (const at of [0, 1, 5]) sent[at]!.call.cancel(new InferError('CANCELLED', 'gone'));
    expect(scheduler.pending()).toBe(3);
    for (let i = 0; i < 3; i += 1) await finish();
    expect(instance.batches.flat()).toEqual([0, 20, 2, 3]);
  });

  it('runs a request of the last level within its time under a steady load of the first (C18)', async () => {
    const { send, finish, clock, instance } = create({ levels: 5, defaultLevel: 5 });
    send(1, { priority: 1 });
    send(1, { priority: 1 });
    send(5, { priority: 5 });
    let runs = 0;
    while (instance.batches.at(-1)![0] !== 5) {
      send(1, { priority: 1 });
      clock.advance(100);
      runs += 1;
      await finish();
    }
    expect(runs).toBe(AGED_AFTER_MS / 100);
  });

  it('gives those that have waited long a bounded share, so that priorities hold under overload', async () => {
    const { send, finish, clock, instance } = create({ levels: 2, defaultLevel: 2 });
    send(1, { priority: 1 });
    for (let i = 0; i < 20; i += 1) send(2, { priority: 2 });
    clock.advance(AGED_AFTER_MS);
    for (let i = 0; i < 3 * AGED_TURN_EVERY; i += 1) {
      send(1, { priority: 1 });
      await finish();
    }
    const urgent = instance.batches.flat().filter((value) => value === 1);
    expect(instance.batches).toHaveLength(1 + 3 * AGED_TURN_EVERY);
    expect(urgent).toHaveLength(1 + 3 * AGED_TURN_EVERY - 3);
  });
});

describe('a queue with a maximum size', () => {
  it('refuses at once what exceeds it, and counts it nowhere', async () => {
    const { send, stats } = create({ own: { maxQueueSize: 2 } });
    for (const value of [0, 1, 2]) send(value);
    expect(await failure(send(3).result)).toMatchObject({
      code: 'UNAVAILABLE',
      message: "Exceeds maximum queue size: 2 requests wait for model 'm'",
    });
    expect(stats.fail).toEqual({ count: 0, ns: 0 });
  });

  it('has room again when a request begins to run, or leaves', async () => {
    const { send, finish, scheduler } = create({ own: { maxQueueSize: 2 } });
    const sent = [0, 1, 2].map((value) => send(value));
    sent[1]!.call.cancel(new InferError('CANCELLED', 'gone'));
    send(3);
    await finish();
    send(4);
    expect(scheduler.pending()).toBe(2);
    expect(await failure(send(5).result)).toMatchObject({ code: 'UNAVAILABLE' });
  });

  it('counts each level for itself', async () => {
    const policies = new Map([[1, { ...FREE, maxQueueSize: 1 }]]);
    const { send, scheduler } = create({ levels: 2, defaultLevel: 2, policies, own: { maxQueueSize: 2 } });
    send(0);
    send(1, { priority: 1 });
    expect(await failure(send(1, { priority: 1 }).result)).toMatchObject({
      message: "Exceeds maximum queue size: 1 requests wait for model 'm' in priority level 1",
    });
    send(2, { priority: 2 });
    send(2);
    expect(await failure(send(2).result)).toMatchObject({ code: 'UNAVAILABLE' });
    expect(scheduler.pending()).toBe(3);
  });

  it('counts requests of all shapes, and requests rather than rows', async () => {
    const { send } = create({ own: { maxQueueSize: 2 } }, { maxRows: 1 });
    send(0);
    send(1, { columns: 1 });
    send(2, { columns: 2 });
    expect(await failure(send(3, { columns: 3 }).result)).toMatchObject({ code: 'UNAVAILABLE' });
  });

  it('stays within the bound of the server, which has its own code', async () => {
    const { send, stats } = create({ own: { maxQueueSize: 5 } }, {}, { maxQueueSize: 1 });
    send(0);
    send(1);
    expect(await failure(send(2).result)).toMatchObject({ code: 'RESOURCE_EXHAUSTED' });
    expect(stats.fail.count).toBe(0);
  });
});

describe('a queue with a time limit', () => {
  it('refuses a request when its time is over, whatever the instance does', async () => {
    const { send, clock, instance, stats, scheduler } = create({ own: { timeoutMs: 1000 } });
    send(0);
    const queued = send(1);
    clock.advance(999);
    expect(scheduler.pending()).toBe(1);
    clock.advance(1);
    expect(await failure(queued.result)).toMatchObject({
      code: 'UNAVAILABLE',
      message: expect.stringContaining('Request timeout expired') as string,
    });
    expect(scheduler.pending()).toBe(0);
    expect(stats.failures).toEqual({ REJECTED: 1, CANCELED: 0, BACKEND: 0, OTHER: 0 });
    expect(instance.runs[0]!.stopped).toBe(false);
  });

  it('never ends a request that has begun to run', async () => {
    const { send, clock, instance } = create({ own: { timeoutMs: 10 } });
    const running = send(0);
    clock.advance(5000);
    instance.runs[0]!.finish();
    expect(await failure(running.result)).toBeUndefined();
  });

  it('lets a request ask for less, in microseconds, where the policy allows it', async () => {
    const { send, clock } = create({ own: { timeoutMs: 1000 } });
    send(0);
    const [short, long] = [send(1, { timeout: 50_000 }), send(2, { timeout: 9_000_000_000_000n })];
    clock.advance(50);
    expect(await failure(short.result)).toMatchObject({ code: 'UNAVAILABLE' });
    clock.advance(949);
    const outcome = failure(long.result);
    clock.advance(1);
    expect(await outcome).toMatchObject({ code: 'UNAVAILABLE' });
  });

  it('does not listen to a request where the policy does not allow it', () => {
    const { send, clock, scheduler } = create({ own: { timeoutMs: 1000, allowsOverride: false } });
    send(0);
    send(1, { timeout: 50_000 });
    clock.advance(999);
    expect(scheduler.pending()).toBe(1);
    clock.advance(1);
    expect(scheduler.pending()).toBe(0);
  });

  it('does not listen to a request where there is no time to shorten', () => {
    const { send, clock, scheduler } = create({ levels: 2, defaultLevel: 2 });
    send(0);
    send(1, { timeout: 50_000 });
    clock.advance(60_000);
    expect(scheduler.pending()).toBe(1);
  });

  it('ends the time of a request that waits for company, too', async () => {
    const { send, clock, instance } = create({ own: { timeoutMs: 5 } }, { maxRows: 8, delayMs: 50 });
    const lonely = send(1);
    clock.advance(5);
    expect(await failure(lonely.result)).toMatchObject({ code: 'UNAVAILABLE' });
    clock.advance(100);
    expect(instance.runs).toHaveLength(0);
  });

  it('does not run what is over its time when the timer comes late', async () => {
    const { send, clock, instance, finish } = create({ own: { timeoutMs: 10 } });
    send(0);
    const late = send(1);
    clock.stall(20);
    await finish();
    expect(instance.runs).toHaveLength(1);
    expect(await failure(late.result)).toMatchObject({ code: 'UNAVAILABLE' });
  });

  it('uses one timer for any number of requests, and none when all is done', () => {
    const { send, clock } = create({ own: { timeoutMs: 1000 } });
    for (let i = 0; i < 50; i += 1) send(i, { timeout: 100_000 + i * 1000 });
    expect(clock.timers).toBe(1);
    clock.advance(2000);
    expect(clock.timers).toBe(0);
  });
});

describe('a queue whose late requests are delayed', () => {
  const delays = { timeoutMs: 1000, delays: true };

  it('runs them after all that are in time, and does not refuse them', async () => {
    const { send, clock, finish, instance } = create({ own: delays });
    send(0);
    const late = send(1, { timeout: 50_000 });
    send(2);
    clock.advance(60);
    send(3);
    for (let i = 0; i < 4; i += 1) await finish();
    expect(instance.batches.flat()).toEqual([0, 2, 3, 1]);
    expect(await failure(late.result)).toBeUndefined();
  });

  it('keeps them before the next level', async () => {
    const { send, clock, finish, instance } = create({ own: delays, levels: 2, defaultLevel: 2 });
    send(0);
    send(1, { priority: 1, timeout: 50_000 });
    send(2, { priority: 2 });
    send(3, { priority: 1 });
    send(4, { priority: 2, timeout: 20_000 });
    clock.advance(60);
    for (let i = 0; i < 5; i += 1) await finish();
    expect(instance.batches.flat()).toEqual([0, 3, 1, 2, 4]);
  });

  it('counts them as waiting in their level', async () => {
    const { send, clock } = create({ own: { ...delays, maxQueueSize: 1 } });
    send(0);
    send(1, { timeout: 1000 });
    clock.advance(10);
    expect(await failure(send(2).result)).toMatchObject({ code: 'UNAVAILABLE' });
  });

  it('does not let them starve under a steady load', async () => {
    const { send, clock, finish, instance } = create({ own: delays });
    send(0);
    send(9, { timeout: 1000 });
    clock.advance(1);
    while (instance.batches.at(-1)![0] !== 9 && clock.now() < 60_000) {
      send(0);
      clock.advance(100);
      await finish();
    }
    expect(instance.batches.at(-1)).toEqual([9]);
    expect(clock.now() - 1000).toBeLessThanOrEqual(AGED_AFTER_MS + 100);
  });
});

describe('a queue with a policy, when the model is unloaded', () => {
  it('runs what waits, and leaves no timer behind', async () => {
    const { send, scheduler, clock, finish, instance } = create({
      own: { timeoutMs: 1000 },
      levels: 2,
      defaultLevel: 2,
    });
    const sent = [0, 1, 2].map((value) => send(value));
    const closed = scheduler.close(500);
    for (let i = 0; i < 3; i += 1) await finish();
    expect(await closed).toBe(true);
    expect(await Promise.all(sent.map(({ result }) => failure(result)))).toEqual([undefined, undefined, undefined]);
    expect([clock.timers, instance.closed]).toEqual([0, true]);
  });
});
