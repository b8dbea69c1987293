import { expect, test } from 'vitest';
import type { Facade } from '../../../producer/facade/facade-context.ts';
import { InferError } from '../../../shared/errors.ts';
import type { Logger } from '../../../shared/runtime/logger.ts';
import { FakeDispatcher, fakeModel } from '../../support/fake-dispatcher.ts';
import { errorText, jsonInput, postInfer, testApp } from '../../support/http-app.ts';

const GOOD = { inputs: [jsonInput('x', 'FP32', [1, 1], [1])] };

test('registers further facades with the context, each in a scope of its own', async () => {
  const facade: Facade = (scope, context) => {
    scope.setErrorHandler((_error, _request, reply) => reply.code(418).send({ own: true }));
    scope.post<{ Body: Buffer }>('/own/:model', (request, reply) => {
      if (request.body.length === 0) throw new Error('empty');
      return reply.send({ ready: context.ready().ok, bytes: request.body.length });
    });
  };
  const app = testApp(new FakeDispatcher([fakeModel('m')]), {}, { facades: [facade] });
  const good = await app.inject({
    method: 'POST',
    url: '/own/m',
    payload: 'abc',
    headers: { 'content-type': 'image/png' },
  });
  expect(good.json()).toEqual({ ready: true, bytes: 3 });
  const bad = await app.inject({ method: 'POST', url: '/own/m' });
  expect(bad.statusCode).toBe(418);
  expect((await app.inject({ method: 'GET', url: '/own/m' })).statusCode).toBe(405);
  expect(errorText(await postInfer(app, 'no', GOOD))).toContain('no');
  await app.close();
});

test('a facade’s own body limit holds', async () => {
  const facade: Facade = (scope) => {
    scope.post('/own', { bodyLimit: 10 }, (_request, reply) => reply.send('ok'));
  };
  const app = testApp(new FakeDispatcher([]), {}, { facades: [facade] });
  const response = await app.inject({ method: 'POST', url: '/own', payload: 'x'.repeat(11) });
  expect(response.statusCode).toBe(413);
  expect(errorText(response)).toContain('10 bytes');
  await app.close();
});

test('shows nothing of a foreign error, and logs it with its cause and the request id', async () => {
  const logged: object[] = [];
  const logger: Logger = { debug() {}, info() {}, warn() {}, error: (fields) => void logged.push(fields) };
  const dispatcher = new FakeDispatcher([fakeModel('m')]);
  dispatcher.answers.set('m', () => Promise.reject(new Error('ENOENT /secret/path')));
  const app = testApp(dispatcher, {}, { logger });
  const response = await postInfer(app, 'm', GOOD, { headers: { 'x-request-id': 'mine-1' } });
  expect(response.statusCode).toBe(500);
  expect(errorText(response)).toBe('internal error');
  expect(logged).toHaveLength(1);
  expect(logged[0]).toMatchObject({ requestId: 'mine-1' });
  expect(JSON.stringify(logged[0])).toContain('ENOENT');
  await app.close();
});

test.each([
  ['INVALID_ARGUMENT', 400],
  ['NOT_FOUND', 404],
  ['ALREADY_EXISTS', 400],
  ['UNAVAILABLE', 503],
  ['RESOURCE_EXHAUSTED', 429],
  ['DEADLINE_EXCEEDED', 504],
  ['CANCELLED', 499],
  ['UNIMPLEMENTED', 501],
  ['INTERNAL', 500],
] as const)('answers %s with %i and its own text', async (code, status) => {
  const dispatcher = new FakeDispatcher([fakeModel('m')]);
  dispatcher.answers.set('m', () => Promise.reject(new InferError(code, 'what went wrong')));
  const app = testApp(dispatcher);
  const response = await postInfer(app, 'm', GOOD);
  expect(response.statusCode).toBe(status);
  expect(errorText(response)).toBe('what went wrong');
  expect(response.headers['retry-after']).toBe(code === 'RESOURCE_EXHAUSTED' ? '1' : undefined);
  await app.close();
});

test('gives every call an id: the client’s when it is sane, else a unique one', async () => {
  const dispatcher = new FakeDispatcher([fakeModel('m')]);
  const app = testApp(dispatcher);
  const send = async (headers: Record<string, string>) =>
    (await postInfer(app, 'm', GOOD, { headers })).headers['x-request-id'];
  expect(await send({ 'x-request-id': 'abc-1' })).toBe('abc-1');
  const others = [
    await send({}),
    await send({}),
    await send({ 'x-request-id': 'a b' }),
    await send({ 'x-request-id': 'x'.repeat(129) }),
  ];
  expect(new Set(others).size).toBe(4);
  for (const id of others) expect(id).toMatch(/^[\w-]{8,}$/);
  expect(dispatcher.seen.map(({ call }) => call.id)).toEqual(['abc-1', ...others]);
  await app.close();
});

test('refuses requests beyond the limit with 429, the figures and when to come back', async () => {
  const dispatcher = new FakeDispatcher([fakeModel('m')]);
  const app = testApp(dispatcher, { maxRequestsInFlight: 2 });
  dispatcher.hold();
  const held = [postInfer(app, 'm', GOOD), postInfer(app, 'm', GOOD)];
  await expect.poll(() => dispatcher.seen.length).toBe(2);
  const refused = await postInfer(app, 'm', GOOD);
  expect(refused.statusCode).toBe(429);
  expect(errorText(refused)).toContain('2 of 2 requests');
  expect(refused.headers['retry-after']).toBe('1');
  dispatcher.letGo();
  for (const response of await Promise.all(held)) expect(response.statusCode).toBe(200);
  expect((await postInfer(app, 'm', GOOD)).statusCode).toBe(200);
  await app.close();
});
