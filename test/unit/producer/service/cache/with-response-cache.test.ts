import { beforeEach, describe, expect, it } from 'vitest';
import { LocalStore } from '../../../../../producer/service/cache/local-store.ts';
import type { ResponseStore } from '../../../../../producer/service/cache/response-store.ts';
import { withResponseCache } from '../../../../../producer/service/cache/with-response-cache.ts';
import { InferError } from '../../../../../shared/errors.ts';
import { Call } from '../../../../../shared/infer/call.ts';
import { ModelStats } from '../../../../../shared/infer/model-stats.ts';
import type { InferFn } from '../../../../../shared/infer/ports.ts';
import { type InferRequest, NO_PARAMETERS } from '../../../../../shared/infer/request.ts';
import type { InferResponse } from '../../../../../shared/infer/response.ts';
import type { ReadyModel } from '../../../../../shared/model/ready-model.ts';
import { fakeModel, NO_TIME } from '../../../../support/fake-dispatcher.ts';
import { FakeClock } from '../../../worker/engine/support/fake-clock.ts';

/** A run that the test ends. It settles by itself only when its call is cancelled, as every dispatcher does. */
interface Run {
  readonly request: InferRequest;
  readonly call: Call;
  answer(identity?: string): void;
  fail(error: InferError): void;
}

let clock: FakeClock;
let store: ResponseStore;
let model: ReadyModel;
let stats: ModelStats;
let runs: Run[];
let infer: InferFn;

const next: InferFn = (request, call) =>
  new Promise((resolve, reject) => {
    const ran = model;
    call.onCancel(reject);
    const answer = (identity = ran.identity) => resolve(responseOf(request, identity));
    runs.push({ request, call, answer, fail: reject });
  });

function responseOf({ inputs }: InferRequest, identity: string | undefined): InferResponse {
  const outputs = inputs.map((input) => ({ ...input, name: 'y' }));
  return { model: 'm', version: '1', outputs, parameters: NO_PARAMETERS, timings: NO_TIME, identity, free: () => {} };
}

function start(): void {
  const catalog = { resolve: () => model };
  infer = withResponseCache({ store, catalog, statsOf: () => stats, clock }, next);
}

beforeEach(() => {
  clock = new FakeClock();
  store = new LocalStore(1_000_000);
  model = fakeModel('m', { identity: 'one' });
  stats = new ModelStats('m', '1');
  runs = [];
  start();
});

let ids = 0;

function send(byte = 1, timeoutMs = 1000) {
  const nowMs = clock.now();
  const call = new Call(`c${(ids += 1)}`, nowMs, nowMs + timeoutMs);
  const inputs = [{ name: 'x', datatype: 'UINT8', shape: [1, 1], data: new Uint8Array([byte]) }] as const;
  const request = { id: call.id, model: 'm', version: '', inputs, outputs: [], parameters: NO_PARAMETERS };
  const result = infer(request, call);
  result.catch(() => {});
  return { call, result, byteOf: async () => (await result).outputs[0]!.data[0] };
}

/** Lets promises that are settled reach those who wait for them. */
const settle = () => new Promise<void>((resolve) => setImmediate(resolve));

const cancelled = new InferError('CANCELLED', 'the client is gone');
const late = new InferError('DEADLINE_EXCEEDED', 'too late');

describe('the response cache', () => {
  it('runs a request once and answers equal ones from then on', async () => {
    const first = send();
    await settle();
    runs[0]!.answer();
    expect(await first.byteOf()).toBe(1);
    const second = await send().result;
    expect(runs).toHaveLength(1);
    expect(second).toMatchObject({ model: 'm', version: '1', timings: { executions: 0, computeInferUs: 0 } });
    expect(second.outputs[0]!.data).toEqual(new Uint8Array([1]));
    expect('free' in second).toBe(false);
    send(2);
    await settle();
    expect(runs).toHaveLength(2);
  });

  it('counts hits and misses as Triton does', async () => {
    const first = send();
    await settle();
    stats.recordSuccess(1, 5, NO_TIME); // as the engine does
    runs[0]!.answer();
    await first.result;
    await send().result;
    await send().result;
    expect([stats.cacheMiss.count, stats.cacheHit.count]).toEqual([1, 2]);
    expect([stats.success.count, stats.queue.count, stats.computeInfer.count]).toEqual([3, 3, 1]);
    expect([stats.inferenceCount, stats.executionCount]).toEqual([1, 1]);
  });

  it('leaves a model without an identity alone', async () => {
    model = fakeModel('m');
    for (let i = 0; i < 2; i += 1) {
      const one = send();
      runs[i]!.answer();
      await one.result;
    }
    expect(stats.cacheMiss.count).toBe(0);
    expect(store.figures().held?.entries).toBe(0);
  });

  it('keeps nothing of a model that changed while it ran', async () => {
    const first = send();
    await settle();
    runs[0]!.answer('two');
    await first.result;
    model = fakeModel('m', { identity: 'two' });
    send();
    model = fakeModel('m', { identity: 'one' });
    send();
    await settle();
    expect(runs).toHaveLength(3);
  });

  it('leaves requests alone that are too large to be hashed', async () => {
    const inputs = [{ name: 'x', datatype: 'UINT8', shape: [1], data: new Uint8Array(17 * 1024 * 1024) }] as const;
    const request = { id: '', model: 'm', version: '', inputs, outputs: [], parameters: NO_PARAMETERS };
    for (let i = 0; i < 2; i += 1) {
      const answer = infer(request, new Call('c', 0, Infinity));
      runs[i]!.answer();
      await answer;
    }
    expect(store.figures().held?.entries).toBe(0);
  });

  it('keeps no error', async () => {
    const first = send();
    await settle();
    runs[0]!.fail(new InferError('INTERNAL', 'it broke'));
    await expect(first.result).rejects.toThrow('it broke');
    const second = send();
    await settle();
    runs[1]!.answer();
    expect(await second.byteOf()).toBe(1);
  });
});

describe('equal requests in flight', () => {
  it('run once, and each gets the answer in memory of its own', async () => {
    const all = [send(), send(), send()];
    await settle();
    expect(runs).toHaveLength(1);
    runs[0]!.answer();
    const answers = await Promise.all(all.map(({ result }) => result));
    expect(new Set(answers.map(({ outputs }) => outputs[0]!.data.buffer)).size).toBe(3);
    expect(answers.map((answer) => 'free' in answer)).toEqual([true, false, false]);
    expect([stats.cacheMiss.count, stats.cacheHit.count]).toEqual([1, 2]);
  });

  it('share an error', async () => {
    const all = [send(), send()];
    await settle();
    runs[0]!.fail(new InferError('RESOURCE_EXHAUSTED', 'full'));
    for (const { result } of all) await expect(result).rejects.toThrow('full');
  });

  it.each([0, 1, 2])('go on when number %i leaves', async (leaver) => {
    const all = [send(), send(), send()];
    await settle();
    all[leaver]!.call.cancel(cancelled);
    await expect(all[leaver]!.result).rejects.toBe(cancelled);
    expect(runs[0]!.call.error).toBeUndefined();
    runs[0]!.answer();
    for (const [index, one] of all.entries()) if (index !== leaver) expect(await one.byteOf()).toBe(1);
    expect(runs).toHaveLength(1);
  });

  it('are cancelled when all have left, and who comes then runs anew', async () => {
    const all = [send(), send()];
    await settle();
    for (const { call } of all) call.cancel(cancelled);
    const next = send();
    expect(runs[0]!.call.error).toBe(cancelled);
    for (const { result } of all) await expect(result).rejects.toBe(cancelled);
    await settle();
    runs[1]!.answer();
    expect(await next.byteOf()).toBe(1);
  });

  it('tell the last who leaves what the run says of its end', async () => {
    const one = send();
    await settle();
    const better = new InferError('UNAVAILABLE', 'no worker serves the model');
    runs[0]!.fail(better);
    one.call.cancel(late);
    await expect(one.result).rejects.toBe(better);
  });

  it('run again for those with time left when the deadline of the first is over', async () => {
    const short = send(1, 100);
    const long = send(1, 1000);
    await settle();
    clock.advance(100);
    short.call.cancel(late);
    await expect(short.result).rejects.toBe(late);
    await settle();
    expect(runs).toHaveLength(2);
    expect(runs[1]!.call.deadlineMs).toBe(long.call.deadlineMs);
    runs[1]!.answer();
    expect(await long.byteOf()).toBe(1);
  });

  it('run again although the first was cancelled before its deadline', async () => {
    const short = send(1, 100);
    const long = send(1, 1000);
    await settle();
    short.call.cancel(cancelled);
    clock.advance(100);
    await settle();
    expect(runs[0]!.call.error?.code).toBe('DEADLINE_EXCEEDED');
    runs[1]!.answer();
    expect(await long.byteOf()).toBe(1);
    expect(clock.timers).toBe(0);
  });

  it('share a deadline error that is the model’s own', async () => {
    const all = [send(), send()];
    await settle();
    runs[0]!.fail(new InferError('DEADLINE_EXCEEDED', 'the queue policy of the model'));
    for (const { result } of all) await expect(result).rejects.toThrow('queue policy');
    expect(runs).toHaveLength(1);
  });
});

describe('a store that answers later', () => {
  let found: (response: InferResponse | undefined) => void;
  let lookups: number;

  beforeEach(() => {
    lookups = 0;
    store = {
      get: () => {
        lookups += 1;
        return new Promise((resolve) => (found = resolve));
      },
      put: () => {},
      figures: () => ({ held: undefined, failures: 0 }),
      close: () => Promise.resolve(),
    };
    start();
  });

  it('is asked once for equal requests', async () => {
    const all = [send(), send()];
    expect(lookups).toBe(1);
    found(
      responseOf({ inputs: [{ name: 'x', datatype: 'UINT8', shape: [1], data: new Uint8Array([9]) }] } as never, 'one'),
    );
    for (const one of all) expect(await one.byteOf()).toBe(9);
    expect(runs).toHaveLength(0);
    expect([stats.cacheMiss.count, stats.cacheHit.count]).toEqual([0, 2]);
  });

  it('starts the run when it has nothing', async () => {
    const one = send();
    found(undefined);
    await settle();
    runs[0]!.answer();
    expect(await one.byteOf()).toBe(1);
  });

  it('starts no run for one who left meanwhile', async () => {
    const one = send();
    one.call.cancel(cancelled);
    found(undefined);
    await expect(one.result).rejects.toBe(cancelled);
    expect(runs).toHaveLength(0);
  });
});
