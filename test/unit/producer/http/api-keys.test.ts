import { expect, test } from 'vitest';
import { registerOpenAiRoutes } from '../../../../producer/facade/openai/routes.ts';
import { registerPageRoutes } from '../../../../producer/dashboard/page-routes.ts';
import type { Preprocessor } from '../../../../producer/preprocess/preprocessor.ts';
import { fakeModel, FakeDispatcher } from '../../../support/fake-dispatcher.ts';
import { errorText, jsonInput, postInfer, testApp } from '../../../support/http-app.ts';
import { tenantsOf } from '../../../support/tenants.ts';

const body = { inputs: [jsonInput('x', 'FP32', [1, 1], [1])] };
const tenants = tenantsOf({ shop: { key: 'k1', models: ['m'] }, lab: { key: 'k2' } });

function setUp() {
  const dispatcher = new FakeDispatcher([fakeModel('m'), fakeModel('other')]);
  const facades = [
    (scope: Parameters<typeof registerPageRoutes>[0]) => registerPageRoutes(scope),
    (scope: Parameters<typeof registerOpenAiRoutes>[0], context: Parameters<typeof registerOpenAiRoutes>[1]) =>
      registerOpenAiRoutes(scope, context, {} as Preprocessor), // no request gets as far
  ];
  return { dispatcher, app: testApp(dispatcher, {}, { tenants, facades }) };
}

test('a request without a key, or with one that nobody has, is 401 and says how to send one', async () => {
  const { app, dispatcher } = setUp();
  const without = await postInfer(app, 'm', body);
  expect(without.statusCode).toBe(401);
  expect(without.headers['www-authenticate']).toBe('Bearer realm="millrace"');
  expect(errorText(without)).toBe('no API key: send "Authorization: Bearer KEY" or "X-API-Key: KEY"');
  const unknown = await postInfer(app, 'm', body, { headers: { 'x-api-key': 'nobodys' } });
  expect(unknown.statusCode).toBe(401);
  expect(errorText(unknown)).toBe('the API key is not known');
  expect(dispatcher.seen).toEqual([]);
});

test('with a key it is served, and the call knows whose it is', async () => {
  const { app, dispatcher } = setUp();
  expect((await postInfer(app, 'm', body, { headers: { authorization: 'Bearer k1' } })).statusCode).toBe(200);
  expect((await postInfer(app, 'other', body, { headers: { 'x-api-key': 'k2' } })).statusCode).toBe(200);
  expect(dispatcher.seen.map(({ call }) => call.tenant)).toEqual(['shop', 'lab']);
});

test('a model outside the list of a key is 403, to call and to look at', async () => {
  const { app, dispatcher } = setUp();
  const headers = { authorization: 'Bearer k1' };
  for (const response of [
    await postInfer(app, 'other', body, { headers }),
    await app.inject({ url: '/v2/models/other', headers }),
    await app.inject({ url: '/v2/models/other/config', headers }),
    await app.inject({ method: 'POST', url: '/v2/repository/models/other/load', headers }),
  ]) {
    expect(response.statusCode).toBe(403);
    expect(errorText(response)).toBe("the API key of shop does not open model 'other'");
  }
  expect(dispatcher.seen).toEqual([]);
  expect(dispatcher.changes).toEqual([]);
});

test('health and the start page need no key, everything else does', async () => {
  const { app } = setUp();
  const statusOf = async (url: string, headers = {}) => (await app.inject({ url, headers })).statusCode;
  for (const url of ['/v2/health/live', '/v2/health/ready', '/v2/models/m/ready'])
    expect(await statusOf(url)).toBe(200);
  expect(await statusOf('/', { accept: 'text/html' })).toBe(200);
  for (const url of ['/v2', '/v2/models/m', '/v2/models/stats', '/v2/logging', '/v1/models']) {
    expect(await statusOf(url)).toBe(401);
    expect(await statusOf(url, { 'x-api-key': 'k2' })).toBe(200);
  }
});

test('the OpenAI paths refuse in their own form', async () => {
  const { app } = setUp();
  const response = await app.inject({ url: '/v1/models' });
  expect(response.json()).toMatchObject({ error: { code: 'invalid_api_key' } });
  expect(response.headers['www-authenticate']).toBe('Bearer realm="millrace"');
});
