import type { FastifyInstance } from 'fastify';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { FakeDispatcher, fakeModel } from '../../support/fake-dispatcher.ts';
import { errorText, jsonInput, postInfer, testApp } from '../../support/http-app.ts';

const inputs = [jsonInput('x', 'FP32', [1, 1], [1])];

let app: FastifyInstance;
let dispatcher: FakeDispatcher;

beforeEach(() => {
  dispatcher = new FakeDispatcher([fakeModel('m')]);
  app = testApp(dispatcher, { requestTimeoutMs: 150 });
});

afterEach(async () => {
  dispatcher.letGo();
  expect((await postInfer(app, 'm', { inputs })).statusCode).toBe(200);
  await app.close();
});

test('answers 504 at the server’s timeout, whatever the engine does (E09)', async () => {
  dispatcher.hold();
  dispatcher.ignoresCancel = true;
  const response = await postInfer(app, 'm', { id: 'slow-1', inputs });
  expect(response.statusCode).toBe(504);
  expect(errorText(response)).toBe('[request id: slow-1] the request was not answered within its timeout of 150 ms');
  expect(dispatcher.seen[0]?.call.error?.code).toBe('DEADLINE_EXCEEDED');
});

test('a request’s own timeout is for the model’s queue policy and moves no deadline (E10)', async () => {
  for (const timeout of [0, 1, 18446744073709551615n, 3_600_000_000]) {
    const body = { inputs, parameters: { timeout } };
    expect((await postInfer(app, 'm', body)).statusCode).toBe(200);
    const { call, request } = dispatcher.seen.at(-1)!;
    expect(call.deadlineMs - call.arrivalMs).toBeCloseTo(150);
    expect(request.parameters['timeout']).toBe(timeout);
  }
});

test.each([-1, 'x', '5', 1.5, null, true, 1e20])('refuses the timeout %j (E10)', async (timeout) => {
  const response = await postInfer(app, 'm', { inputs, parameters: { timeout } });
  expect(response.statusCode).toBe(400);
  expect(errorText(response)).toContain('parameter timeout must be a whole number from 0 to 2^64 - 1');
});
