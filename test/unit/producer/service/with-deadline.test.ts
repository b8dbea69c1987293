import { expect, test } from 'vitest';
import { withDeadline } from '../../../../producer/service/with-deadline.ts';
import { InferError } from '../../../../shared/errors.ts';
import { Call } from '../../../../shared/infer/call.ts';
import { type InferRequest, NO_PARAMETERS } from '../../../../shared/infer/request.ts';
import type { InferResponse } from '../../../../shared/infer/response.ts';
import type { Clock } from '../../../../shared/runtime/clock.ts';

const REQUEST: InferRequest = { id: '', model: 'm', version: '', inputs: [], outputs: [], parameters: NO_PARAMETERS };
const RESPONSE = { model: 'm' } as InferResponse; // nothing here looks inside

class FakeClock implements Clock {
  timeMs = 1000;
  timers: { readonly callback: () => void; readonly atMs: number }[] = [];
  now(): number {
    return this.timeMs;
  }
  setTimer(callback: () => void, ms: number): () => void {
    const timer = { callback, atMs: this.timeMs + ms };
    this.timers.push(timer);
    return () => {
      this.timers = this.timers.filter((other) => other !== timer);
    };
  }
  advance(ms: number): void {
    this.timeMs += ms;
    for (const timer of this.timers.filter(({ atMs }) => atMs <= this.timeMs)) {
      this.timers = this.timers.filter((other) => other !== timer);
      timer.callback();
    }
  }
}

const never = (): Promise<InferResponse> => new Promise(() => undefined);

test('answers DEADLINE_EXCEEDED on time although the engine never answers', async () => {
  const clock = new FakeClock();
  const call = new Call('1', 1000, 2000);
  const result = withDeadline(clock, never)(REQUEST, call);
  clock.advance(999);
  expect(call.error).toBeUndefined();
  clock.advance(1);
  await expect(result).rejects.toMatchObject({
    code: 'DEADLINE_EXCEEDED',
    message: expect.stringContaining('1000 ms') as string,
  });
  expect(call.error?.code).toBe('DEADLINE_EXCEEDED');
});

test('passes the answer on and leaves no timer behind', async () => {
  const clock = new FakeClock();
  const infer = withDeadline(clock, () => Promise.resolve(RESPONSE));
  expect(await infer(REQUEST, new Call('1', 1000, 2000))).toBe(RESPONSE);
  const failing = withDeadline(clock, () => Promise.reject(new InferError('UNAVAILABLE', 'no')));
  await expect(failing(REQUEST, new Call('2', 1000, 2000))).rejects.toMatchObject({ code: 'UNAVAILABLE' });
  expect(clock.timers).toEqual([]);
});

test('settles a call whose client hangs up', async () => {
  const clock = new FakeClock();
  const call = new Call('1', 1000, 2000);
  const result = withDeadline(clock, never)(REQUEST, call);
  call.cancel(new InferError('CANCELLED', 'gone'));
  await expect(result).rejects.toMatchObject({ code: 'CANCELLED' });
  expect(clock.timers).toEqual([]);
});

test('lets a layer below give a better reason in the same turn', async () => {
  const clock = new FakeClock();
  const infer = withDeadline(
    clock,
    (_request, call) =>
      new Promise((_resolve, reject) => {
        call.onCancel(() => reject(new InferError('UNAVAILABLE', 'no worker has come')));
      }),
  );
  const result = infer(REQUEST, new Call('1', 1000, 2000));
  clock.advance(1000);
  await expect(result).rejects.toMatchObject({ code: 'UNAVAILABLE' });
});

test('does not start a call that is over already', async () => {
  const clock = new FakeClock();
  let started = 0;
  const infer = withDeadline(clock, () => {
    started++;
    return never();
  });
  await expect(infer(REQUEST, new Call('1', 500, 1000))).rejects.toMatchObject({ code: 'DEADLINE_EXCEEDED' });
  const gone = new Call('2', 1000, 2000);
  gone.cancel(new InferError('CANCELLED', 'gone'));
  await expect(infer(REQUEST, gone)).rejects.toMatchObject({ code: 'CANCELLED' });
  expect(started).toBe(0);
});

test('needs no timer for a call without a deadline', async () => {
  const clock = new FakeClock();
  const infer = withDeadline(clock, () => Promise.resolve(RESPONSE));
  const result = infer(REQUEST, new Call('1', 1000, Infinity));
  expect(clock.timers).toEqual([]);
  expect(await result).toBe(RESPONSE);
});
