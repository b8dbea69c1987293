import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { IdempotencyConflict } from '../../../producer/service/jobs/job-store.ts';
import { InferError } from '../../../shared/errors.ts';
import { until } from '../../support/redis.ts';
import {
  type BytesOf,
  type JobsBench,
  type JobWish,
  jobOf,
  memoryJobs,
  pooledJobs,
  type ShareOf,
  submitted,
  textOf,
} from './kit.ts';

const FOREVER = new Promise<void>(() => undefined);

describe.each([
  [
    'in memory',
    (maxOpen?: number, shareOf?: ShareOf, bytesOf?: BytesOf) => memoryJobs(maxOpen, undefined, shareOf, bytesOf),
  ],
  ['in a pool', (maxOpen?: number, shareOf?: ShareOf, bytesOf?: BytesOf) => pooledJobs(maxOpen, shareOf, bytesOf)],
])('jobs %s', (_, open) => {
  let bench: JobsBench;
  beforeEach(async () => {
    bench = await open();
  });
  afterEach(() => bench.close());

  const held = async (count = 1) => {
    await until(`${count} runs are in the engine`, () => bench.engine.held.length === count);
    return bench.engine.held;
  };

  it('runs a job, keeps its answer and tells its life', async () => {
    const { record, created } = await bench.jobs.submit(jobOf({ text: 'water' }));
    expect(created).toBe(true);
    expect(record).toMatchObject({ model: 'echo', version: '', state: 'queued', runs: 0, maxAttempts: 3, priority: 0 });
    const { record: done, position } = await bench.jobs.wait(record.id, 10_000);
    expect(done).toMatchObject({ id: record.id, state: 'succeeded', runs: 1, error: undefined, answer: '{}' });
    expect(position).toBeUndefined();
    expect(done.finishedMs! - done.startedMs!).toBeGreaterThanOrEqual(0);
    expect(done.deadlineMs - done.createdMs).toBe(3_600_000);
    expect(await textOf(bench.jobs, record.id)).toBe('water');
  });

  it('does not take what would be refused at once', async () => {
    const unknown = { model: 'nothing' };
    await expect(bench.jobs.submit(jobOf(unknown))).rejects.toMatchObject({ code: 'NOT_FOUND' });
    const bad = jobOf({ request: { outputs: ['z'] } });
    await expect(bench.jobs.submit(bad)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
    await expect(bench.jobs.submit(jobOf({ maxAttempts: 0 }))).rejects.toThrow('attempts must be a whole number');
    expect((await bench.jobs.list({ model: undefined, state: undefined, limit: 10, cursor: '' })).records).toEqual([]);
  });

  it('tells a waiting request when the time is over, and nobody more than that', async () => {
    bench.engine.holding = true;
    const id = await submitted(bench.jobs);
    await held();
    expect((await bench.jobs.wait(id, 20)).record.state).toBe('running');
    await expect(bench.jobs.result(id)).rejects.toMatchObject({ code: 'NOT_FOUND' });
    bench.engine.release();
    expect((await bench.jobs.wait(id, 10_000)).record.state).toBe('succeeded');
  });

  it('ends a wait when its client has gone, and when the server closes', async () => {
    bench.engine.holding = true;
    const id = await submitted(bench.jobs);
    let hangUp: () => void = () => undefined;
    const gone = bench.jobs.wait(id, 60_000, new Promise((resolve) => (hangUp = resolve)));
    hangUp();
    expect((await gone).record.id).toBe(id);
    const waiting = bench.jobs.wait(id, 60_000);
    bench.jobs.release();
    expect((await waiting).record.id).toBe(id);
  });

  it('fails at once with what is wrong with the request', async () => {
    bench.engine.holding = true;
    const id = await submitted(bench.jobs);
    (await held())[0]!.fail(new InferError('INVALID_ARGUMENT', 'no such row'));
    const { record } = await bench.jobs.wait(id, 10_000);
    expect(record).toMatchObject({ state: 'failed', runs: 1 });
    expect(record.error).toMatchObject({ code: 'INVALID_ARGUMENT', message: 'no such row' });
  });

  it('runs again what failed in a way that may pass, as often as it may', async () => {
    bench.engine.holding = true;
    const id = await submitted(bench.jobs, { maxAttempts: 2 });
    (await held())[0]!.fail(new InferError('UNAVAILABLE', 'not now'));
    await until('it waits again', async () => (await bench.jobs.get(id)).record.state === 'queued');
    expect((await bench.jobs.get(id)).record.error?.message).toBe('not now');
    (await held(2))[1]!.fail(new InferError('UNAVAILABLE', 'nor now'));
    const { record } = await bench.jobs.wait(id, 10_000);
    expect(record).toMatchObject({ state: 'failed', runs: 2 });
    expect(record.error?.message).toBe('nor now');
  });

  it('forgets why the first attempt failed when the second succeeds', async () => {
    bench.engine.holding = true;
    const id = await submitted(bench.jobs);
    (await held())[0]!.fail(new InferError('INTERNAL', 'a hiccup'));
    (await held(2))[1]!.answer();
    const { record } = await bench.jobs.wait(id, 10_000);
    expect(record).toMatchObject({ state: 'succeeded', runs: 2, error: undefined });
  });

  it('expires a job that nobody could run in time, before the model, with the error of infer', async () => {
    bench.engine.holding = true;
    const late = await submitted(bench.jobs, { timeoutMs: 60_000 });
    await held();
    const id = await submitted(bench.jobs, { delayMs: 50, timeoutMs: 1 });
    const { record } = await bench.jobs.wait(id, 10_000);
    expect(record.state).toBe('expired');
    expect(record.error).toMatchObject({
      code: 'DEADLINE_EXCEEDED',
      message: 'the request was not answered within its timeout of 51 ms',
    });
    bench.engine.release();
    expect((await bench.jobs.wait(late, 10_000)).record.state).toBe('succeeded');
  });

  it('does not run a job before its delay', async () => {
    const id = await submitted(bench.jobs, { delayMs: 400 });
    const { record } = await bench.jobs.wait(id, 10_000);
    expect(record.state).toBe('succeeded');
    expect(record.startedMs! - record.createdMs).toBeGreaterThanOrEqual(390);
  });

  it('cancels a job in hand whose engine has not begun, and leaves its neighbour alone', async () => {
    bench.engine.holding = true;
    const [first, second] = [
      await submitted(bench.jobs, { text: 'one' }),
      await submitted(bench.jobs, { text: 'two' }),
    ];
    await held(2);
    const { view, cancelled } = await bench.jobs.cancel(first);
    expect(cancelled).toBe(true);
    expect(view.record).toMatchObject({ state: 'cancelled', error: { code: 'CANCELLED' } });
    await until('the call has ended', () => bench.engine.held.some(({ call }) => call.error?.code === 'CANCELLED'));
    bench.engine.release();
    expect((await bench.jobs.wait(second, 10_000)).record.state).toBe('succeeded');
    expect(await textOf(bench.jobs, second)).toBe('two');
    expect((await bench.jobs.get(first)).record.state).toBe('cancelled');
  });

  it('does not cancel what is over', async () => {
    const id = await submitted(bench.jobs);
    await bench.jobs.wait(id, 10_000);
    expect(await bench.jobs.cancel(id)).toMatchObject({ cancelled: false, view: { record: { state: 'succeeded' } } });
    await expect(bench.jobs.cancel('jnothing')).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });

  it('cancels a job that waits for its time', async () => {
    const id = await submitted(bench.jobs, { delayMs: 60_000 });
    expect((await bench.jobs.cancel(id)).cancelled).toBe(true);
    expect((await bench.jobs.cancel(id)).cancelled).toBe(false);
    expect(bench.engine.seen).toEqual([]);
  });

  it('gives the same job for the same key, and refuses another body under it', async () => {
    const first = await bench.jobs.submit(jobOf({ key: 'k', text: 'one' }));
    const again = await bench.jobs.submit(jobOf({ key: 'k', text: 'one', priority: 7 }));
    expect([again.created, again.record.id]).toEqual([false, first.record.id]);
    await expect(bench.jobs.submit(jobOf({ key: 'k', text: 'two' }))).rejects.toThrow(IdempotencyConflict);
    await bench.jobs.wait(first.record.id, 10_000);
    const later = await bench.jobs.submit(jobOf({ key: 'k', text: 'one' }));
    expect(later).toMatchObject({ created: false, record: { id: first.record.id, state: 'succeeded' } });
    expect(bench.engine.seen).toHaveLength(1);
  });

  it('forgets job, answer and key after the time to keep', async () => {
    const id = await submitted(bench.jobs, { key: 'k', keepMs: 1000 });
    await bench.jobs.wait(id, 10_000);
    await until('it is gone', () =>
      bench.jobs.get(id).then(
        () => false,
        () => true,
      ),
    );
    await expect(bench.jobs.result(id)).rejects.toMatchObject({ code: 'NOT_FOUND' });
    expect((await bench.jobs.submit(jobOf({ key: 'k', text: 'another' }))).created).toBe(true);
  });

  it('lists by model and state, newest first, in pages', async () => {
    const ids: string[] = [];
    for (let i = 0; i < 5; i++) ids.push(await submitted(bench.jobs, { model: i === 2 ? 'other' : 'echo' }));
    for (const id of ids) await bench.jobs.wait(id, 10_000);
    const waiting = await submitted(bench.jobs, { delayMs: 60_000 });
    const all = { model: undefined, state: undefined, limit: 100, cursor: '' };
    const idsOf = async (query: object) => {
      const page = await bench.jobs.list({ ...all, ...query });
      return { ids: page.records.map(({ id }) => id), cursor: page.cursor };
    };
    expect((await idsOf({})).ids).toEqual([...ids, waiting].reverse());
    expect((await idsOf({ model: 'other' })).ids).toEqual([ids[2]]);
    expect((await idsOf({ state: 'queued' })).ids).toEqual([waiting]);
    const first = await idsOf({ limit: 4 });
    expect(first.ids).toEqual([waiting, ids[4], ids[3], ids[2]]);
    const second = await idsOf({ limit: 4, cursor: first.cursor });
    expect(second).toEqual({ ids: [ids[1], ids[0]], cursor: undefined });
  });

  it('tells the place in line, and more urgent ones come first', async () => {
    bench.engine.holding = true;
    // What is in hand is not in line.
    const running = await Promise.all(Array.from({ length: 200 }, () => bench.jobs.submit(jobOf())));
    await until('nobody takes more', async () => {
      const before = bench.engine.held.length;
      await new Promise((resolve) => setTimeout(resolve, 100));
      return before > 0 && before === bench.engine.held.length;
    });
    const late = await submitted(bench.jobs, { priority: 9 });
    const soon = await submitted(bench.jobs, { priority: 1 });
    const last = running.at(-1)!.record.id;
    const [lateAt, soonAt, lastAt] = await Promise.all(
      [late, soon, last].map(async (id) => (await bench.jobs.get(id)).position),
    );
    expect(lastAt).toBeGreaterThan(0);
    expect(soonAt).toBe(lastAt! + 1);
    expect(lateAt).toBe(soonAt! + 1);
    bench.engine.release();
    expect((await bench.jobs.wait(late, 15_000)).record.state).toBe('succeeded');
  });

  it('follows a job through its states and ends behind the last one', async () => {
    bench.engine.holding = true;
    const id = await submitted(bench.jobs, { delayMs: 150 });
    const states: string[] = [];
    const followed = bench.jobs.follow(id, ({ record }) => states.push(record.state), FOREVER);
    await held();
    await until('it is told that it runs', () => states.includes('running'));
    bench.engine.release();
    await followed;
    expect(states).toEqual(['queued', 'running', 'succeeded']);
  });

  it('tells everybody who listens of each job that ends', async () => {
    const ended: string[] = [];
    const stop = bench.jobs.onEnd((id, state) => ended.push(`${id} ${state}`));
    const [first, second] = [await submitted(bench.jobs), await submitted(bench.jobs, { delayMs: 60_000 })];
    await bench.jobs.wait(first, 10_000);
    await bench.jobs.cancel(second);
    await until('both are told', () => ended.length === 2);
    expect(ended).toEqual([`${first} succeeded`, `${second} cancelled`]);
    stop();
  });

  it('refuses more open jobs than it may have, and takes them again later', async () => {
    await bench.close();
    bench = await open(2);
    const [first] = [
      await submitted(bench.jobs, { delayMs: 60_000 }),
      await submitted(bench.jobs, { delayMs: 60_000 }),
    ];
    await expect(bench.jobs.submit(jobOf())).rejects.toMatchObject({
      code: 'RESOURCE_EXHAUSTED',
      message: '2 jobs are open already, no more are taken; try again later',
    });
    await bench.jobs.cancel(first);
    expect((await bench.jobs.wait(await submitted(bench.jobs), 10_000)).record.state).toBe('succeeded');
  });

  it('lets each tenant have its share open, and gives the place back with the end of a job', async () => {
    await bench.close();
    bench = await open(4, (tenant, maxOpen) => (tenant === 'shop' ? maxOpen - 2 : 2));
    const wish = { delayMs: 60_000, tenant: 'shop' };
    const ids = [await submitted(bench.jobs, wish), await submitted(bench.jobs, wish)];
    const refusal = { code: 'RESOURCE_EXHAUSTED', message: /^2 jobs of shop are open already, its share/ };
    const refused = await bench.jobs.submit(jobOf(wish)).catch((error: unknown) => error);
    expect(refused).toMatchObject({ code: refusal.code, message: expect.stringMatching(refusal.message) as string });
    await submitted(bench.jobs, { ...wish, tenant: 'lab' });
    await bench.jobs.cancel(ids[0]!);
    const third = await submitted(bench.jobs, { tenant: 'shop' });
    expect((await bench.jobs.wait(third, 10_000)).record).toMatchObject({ state: 'succeeded', tenant: 'shop' });
    await submitted(bench.jobs, wish);
    await expect(bench.jobs.submit(jobOf(wish))).rejects.toMatchObject({ code: 'RESOURCE_EXHAUSTED' });
  });

  it('lets the open jobs of a tenant have so many bytes, and gives them back with the end of a job', async () => {
    await bench.close();
    bench = await open(10, undefined, (tenant) => (tenant === 'shop' ? 250 : 0));
    const wish = { delayMs: 60_000, tenant: 'shop', text: 'x'.repeat(150) };
    const first = await submitted(bench.jobs, wish);
    await expect(bench.jobs.submit(jobOf(wish))).rejects.toMatchObject({
      code: 'RESOURCE_EXHAUSTED',
      message: expect.stringMatching(/^the open jobs of shop have \d+ of 250 bytes, no room for \d+ more/) as string,
    });
    await submitted(bench.jobs, { ...wish, tenant: 'lab' });
    await expect(bench.jobs.submit(jobOf({ ...wish, text: 'x'.repeat(251) }))).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
    });
    await bench.jobs.cancel(first);
    await submitted(bench.jobs, wish);
  });

  it('finds the job of a key when its model has gone', async () => {
    const first = await bench.jobs.submit(jobOf({ key: 'k', text: 'one' }));
    await bench.jobs.wait(first.record.id, 10_000);
    const gone = jobOf({ key: 'k', text: 'one', model: 'unloaded' });
    expect(await bench.jobs.submit(gone)).toMatchObject({ created: false, record: { id: first.record.id } });
    const other = jobOf({ key: 'k', text: 'two', model: 'unloaded' });
    await expect(bench.jobs.submit(other)).rejects.toThrow(IdempotencyConflict);
    const unknown = jobOf({ key: 'l', model: 'unloaded' });
    await expect(bench.jobs.submit(unknown)).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });
});

it('refuses more bytes than the memory may hold', async () => {
  const bench = await memoryJobs(10, 10);
  const id = await submitted(bench.jobs, { text: 'four' });
  await bench.jobs.wait(id, 10_000);
  // The answer is as large as the input, and its form is two characters.
  await expect(bench.jobs.submit(jobOf({ text: 'four' }))).rejects.toThrow('8 more bytes beside 8 of jobs');
  await bench.close();
});

it.each<[string, { answer?: string; request?: JobWish['request'] }]>([
  ['its form', { answer: 'x'.repeat(1000) }],
  ['a parameter', { request: { parameters: { text: 'x'.repeat(1000) } } }],
  ['the name of a parameter', { request: { parameters: { ['x'.repeat(1000)]: 1 } } }],
  ['its id', { request: { id: 'x'.repeat(1000) } }],
])('counts texts of a client too: %s', async (_, { answer = '{}', request }) => {
  const bench = await memoryJobs(10, 1000);
  const job = { ...jobOf({ text: 'four', ...(request && { request }) }), answer };
  await expect(bench.jobs.submit(job)).rejects.toMatchObject({ code: 'RESOURCE_EXHAUSTED' });
  await submitted(bench.jobs, { text: 'four' });
  await bench.close();
});
