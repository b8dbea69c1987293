import { expect, test } from 'vitest';
import { fakeModel, FakeDispatcher } from '../../../../support/fake-dispatcher.ts';
import { jsonInput, testApp } from '../../../../support/http-app.ts';
import { tenantsOf } from '../../../../support/tenants.ts';

const tenants = tenantsOf({ shop: { key: 'k1' }, lab: { key: 'k2' } });

function setUp() {
  const app = testApp(new FakeDispatcher([fakeModel('m')]), {}, { tenants });
  const send = (
    method: 'GET' | 'POST' | 'DELETE',
    url: string,
    key: string,
    more: Record<string, string> = {},
    value = 1,
  ) =>
    app.inject({
      method,
      url,
      headers: { 'x-api-key': key, ...more },
      ...(method === 'POST' ? { payload: JSON.stringify({ inputs: [jsonInput('x', 'FP32', [1, 1], [value])] }) } : {}),
    });
  const submit = async (key: string, more: Record<string, string> = {}, value = 1) => {
    const response = await send('POST', '/v2/models/m/jobs', key, more, value);
    return { status: response.statusCode, id: response.json<{ id: string }>().id };
  };
  return { send, submit };
}

test('a job of another tenant is not there, whatever is asked of it', async () => {
  const { send, submit } = setUp();
  const { id } = await submit('k1');
  expect((await send('GET', `/jobs/${id}`, 'k1')).statusCode).toBe(200);
  for (const path of ['', '/result', '/events']) {
    const response = await send('GET', `/jobs/${id}${path}`, 'k2');
    expect(response.statusCode).toBe(404);
    expect(response.json()).toEqual({ error: `job '${id}' is not known: it never was, or is not kept any more` });
  }
  expect((await send('DELETE', `/jobs/${id}`, 'k2')).statusCode).toBe(404);
  expect((await send('GET', `/jobs/${id}/result?wait=5`, 'k1')).statusCode).toBe(200);
});

test('a list shows the own jobs alone', async () => {
  const { send, submit } = setUp();
  const own = await submit('k1');
  await submit('k2');
  const { jobs } = (await send('GET', '/jobs', 'k1')).json<{ jobs: { id: string }[] }>();
  expect(jobs.map(({ id }) => id)).toEqual([own.id]);
});

test('an idempotency key is that of one tenant', async () => {
  const { submit } = setUp();
  const key = { 'idempotency-key': 'order-7' };
  const first = await submit('k1', key);
  expect((await submit('k1', key)).id).toBe(first.id);
  const other = await submit('k2', key, 2);
  expect(other.status).toBe(202);
  expect(other.id).not.toBe(first.id);
  expect((await submit('k1', key, 2)).status).toBe(422);
});

test('nobody can take the places of others: each may have its share open', async () => {
  const weighted = tenantsOf({ shop: { key: 'k1', weight: 3 }, lab: { key: 'k2' } });
  const app = testApp(new FakeDispatcher([fakeModel('m')]), { maxOpenJobs: 8 }, { tenants: weighted });
  const submit = (key: string) =>
    app.inject({
      method: 'POST',
      url: '/v2/models/m/jobs?delay=1h',
      headers: { 'x-api-key': key },
      payload: JSON.stringify({ inputs: [jsonInput('x', 'FP32', [1, 1], [1])] }),
    });
  for (let i = 0; i < 6; i++) expect((await submit('k1')).statusCode).toBe(202);
  const refused = await submit('k1');
  expect([refused.statusCode, refused.headers['retry-after']]).toEqual([429, '1']);
  expect(refused.json()).toEqual({
    error: '6 jobs of shop are open already, its share; no more are taken, try again later',
  });
  for (let i = 0; i < 2; i++) expect((await submit('k2')).statusCode).toBe(202);
  expect((await submit('k2')).statusCode).toBe(429);
  await app.close();
});
