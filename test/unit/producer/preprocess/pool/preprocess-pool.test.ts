import { describe, expect, test } from 'vitest';
import { PreprocessPool, type PoolSettings } from '../../../../../producer/preprocess/pool/preprocess-pool.ts';
import type { ThreadReply, ThreadTask } from '../../../../../producer/preprocess/pool/messages.ts';
import type { Threads } from '../../../../../producer/preprocess/pool/threads.ts';
import { InferError } from '../../../../../shared/errors.ts';
import { Call } from '../../../../../shared/infer/call.ts';
import type { Clock } from '../../../../../shared/runtime/clock.ts';

const REPLY: ThreadReply = { status: 'unknown-tokenizer' };

/** Threads that hold each task until the test lets it end. */
class HeldThreads implements Threads {
  readonly count: number;
  readonly started: string[] = [];
  closed = false;
  readonly #ends = new Map<string, () => void>();

  constructor(count: number) {
    this.count = count;
  }

  start(): void {}

  run(task: ThreadTask): Promise<ThreadReply> {
    const name = nameOf(task);
    this.started.push(name);
    return new Promise((resolve) => this.#ends.set(name, () => resolve(REPLY)));
  }

  async end(name: string): Promise<void> {
    this.#ends.get(name)!();
    await new Promise(setImmediate);
  }

  close(): Promise<void> {
    this.closed = true;
    return Promise.resolve();
  }
}

class FakeClock implements Clock {
  nowMs = 0;
  readonly #timers = new Set<{ atMs: number; callback: () => void }>();

  now(): number {
    return this.nowMs;
  }

  setTimer(callback: () => void, ms: number): () => void {
    const timer = { atMs: this.nowMs + ms, callback };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  get timers(): number {
    return this.#timers.size;
  }

  advanceTo(nowMs: number): void {
    this.nowMs = nowMs;
    for (const timer of this.#timers) {
      if (timer.atMs > nowMs) continue;
      this.#timers.delete(timer);
      timer.callback();
    }
  }
}

function nameOf(task: ThreadTask): string {
  return task.kind === 'texts' ? task.texts.join() : '';
}

function task(name: string): ThreadTask {
  return { kind: 'texts', texts: [name], model: 'm/1', generation: 0 };
}

function kit(threads: number, settings: Partial<PoolSettings> = {}) {
  const held = new HeldThreads(threads);
  const clock = new FakeClock();
  const pool = new PreprocessPool({ maxWaiting: 10, maxWaitingBytes: 1000, largeBytes: 100, ...settings }, held, clock);
  const run = (name: string, { byteLength = 1, call = new Call(name, 0, Infinity) } = {}) => {
    const outcome: { value?: ThreadReply; error?: InferError } = {};
    const settled = pool.run(task(name), byteLength, call).then(
      (value) => void (outcome.value = value),
      (error: unknown) => void (outcome.error = error as InferError),
    );
    return { call, outcome, settled };
  };
  return { held, clock, pool, run };
}

describe('PreprocessPool', () => {
  test('starts tasks in the order of their arrival, as many at once as there are threads', async () => {
    const { held, run } = kit(2);
    const [a] = ['a', 'b', 'c', 'd'].map((name) => run(name));
    expect(held.started).toEqual(['a', 'b']);
    await held.end('a');
    await a!.settled;
    expect(a!.outcome.value).toBe(REPLY);
    await held.end('b');
    expect(held.started).toEqual(['a', 'b', 'c', 'd']);
  });

  test('refuses what would wait beyond the bound, and takes more once there is room', async () => {
    const { held, run } = kit(1, { maxWaiting: 1 });
    run('a');
    run('b');
    const refused = run('c');
    await refused.settled;
    expect(refused.outcome.error).toMatchObject({ code: 'RESOURCE_EXHAUSTED' });
    await held.end('a');
    run('d');
    await held.end('b');
    expect(held.started).toEqual(['a', 'b', 'd']);
  });

  test('counts the bytes of what waits', async () => {
    const { held, run } = kit(1, { maxWaitingBytes: 150 });
    run('a', { byteLength: 90 });
    run('b', { byteLength: 90 });
    const refused = run('c', { byteLength: 90 });
    await refused.settled;
    expect(refused.outcome.error?.message).toContain('90 of 150 bytes');
    await held.end('a');
    run('d', { byteLength: 90 });
    await held.end('b');
    expect(held.started).toEqual(['a', 'b', 'd']);
  });

  test('drops a waiting task whose caller has gone', async () => {
    const { held, run, pool } = kit(1);
    run('a');
    const gone = run('b');
    run('c');
    gone.call.cancel(new InferError('CANCELLED', 'gone'));
    await gone.settled;
    expect(gone.outcome.error).toMatchObject({ code: 'CANCELLED' });
    expect(pool.waiting).toBe(1);
    await held.end('a');
    expect(held.started).toEqual(['a', 'c']);
  });

  test('answers a caller who leaves a running task at once, and keeps the thread until the task has ended', async () => {
    const { held, run } = kit(1);
    const gone = run('a');
    run('b');
    gone.call.cancel(new InferError('CANCELLED', 'gone'));
    await gone.settled;
    expect(gone.outcome.error).toMatchObject({ code: 'CANCELLED' });
    expect(held.started).toEqual(['a']);
    await held.end('a');
    expect(held.started).toEqual(['a', 'b']);
  });

  test('ends a call at its deadline', async () => {
    const { held, run, clock } = kit(1);
    run('a');
    const late = run('b', { call: new Call('b', 0, 50) });
    clock.advanceTo(50);
    await late.settled;
    expect(late.outcome.error).toMatchObject({ code: 'DEADLINE_EXCEEDED' });
    expect(late.call.error).toBe(late.outcome.error);
    await held.end('a');
    expect(held.started).toEqual(['a']);
  });

  test('refuses a call whose deadline has passed without starting anything', async () => {
    const { held, run, clock } = kit(1);
    clock.advanceTo(100);
    const late = run('a', { call: new Call('a', 0, 50) });
    await late.settled;
    expect(late.outcome.error).toMatchObject({ code: 'DEADLINE_EXCEEDED' });
    expect(held.started).toEqual([]);
  });

  test('leaves no timer behind', async () => {
    const { held, run, clock } = kit(1);
    const done = run('a', { call: new Call('a', 0, 1000) });
    await held.end('a');
    await done.settled;
    expect(clock.timers).toBe(0);
  });

  test('keeps one thread free of large tasks, so that small ones pass them', async () => {
    const { held, run } = kit(2);
    for (const name of ['big1', 'big2', 'big3']) run(name, { byteLength: 200 });
    expect(held.started).toEqual(['big1']);
    run('small');
    expect(held.started).toEqual(['big1', 'small']);
    await held.end('big1');
    expect(held.started).toEqual(['big1', 'small', 'big2']);
  });

  test('gives large tasks the only thread when there is one', async () => {
    const { held, run } = kit(1);
    run('big', { byteLength: 200 });
    run('small');
    await held.end('big');
    expect(held.started).toEqual(['big', 'small']);
  });

  test('on close refuses new tasks, lets the others end, and then ends the threads', async () => {
    const { held, run, pool } = kit(1);
    const a = run('a');
    const b = run('b');
    const closing = pool.close();
    const refused = run('c');
    await refused.settled;
    expect(refused.outcome.error).toMatchObject({ code: 'UNAVAILABLE' });
    await held.end('a');
    expect(held.closed).toBe(false);
    await held.end('b');
    await closing;
    await Promise.all([a.settled, b.settled]);
    expect([a.outcome.value, b.outcome.value]).toEqual([REPLY, REPLY]);
    expect(held.closed).toBe(true);
  });

  test('closes although the last caller has gone', async () => {
    const { held, run, pool } = kit(1);
    run('a');
    const gone = run('b');
    const closing = pool.close();
    await held.end('a');
    gone.call.cancel(new InferError('CANCELLED', 'gone'));
    await held.end('b');
    await closing;
    expect(held.closed).toBe(true);
  });
});
