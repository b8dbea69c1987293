import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { makeFixtureRepository } from '../fixtures/make-models.ts';
import { type MillraceProcess, startMillrace } from '../support/process.ts';

let folder = '';
let serve: MillraceProcess;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'millrace-e2e-'));
  makeFixtureRepository(folder, ['rowsum']);
  const options = [`--model-repository=${folder}`, '--log-info=false'];
  serve = await startMillrace(['serve', ...options], {
    env: { MILLRACE_HTTP_RESTRICTED_API: 'model-repository,health:k1=v1\nmetadata,inference:k2=a value: with=signs' },
  });
});
afterAll(async () => {
  await serve.stop();
  await rm(folder, { recursive: true, force: true });
});

const K1 = { k1: 'v1' };
const K2 = { K2: 'a value: with=signs' };
const REQUEST = JSON.stringify({ inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 1], data: [1] }] });

test.each([
  ['GET', '/v2/health/ready', K1, K2],
  ['POST', '/v2/repository/index', K1, K2],
  ['GET', '/v2/models/rowsum', K2, K1],
  ['GET', '/openapi.json', K2, K1],
  ['POST', '/v2/models/rowsum/infer', K2, K1],
  ['POST', '/v2/models/rowsum/infer', { ...K1, ...K2 }, {}],
])('%s %s opens for %j and not for %j', async (method, path, right, wrong) => {
  const body = path.endsWith('/infer') ? REQUEST : undefined;
  const send = (headers: Record<string, string>) =>
    fetch(`${serve.url}${path}`, { method, headers, ...(body === undefined ? {} : { body }) });
  expect((await send(right)).status).toBe(200);
  for (const headers of [{}, wrong]) {
    const refused = await send(headers);
    expect(refused.status).toBe(403);
    expect(await refused.json()).toEqual({
      error: expect.stringMatching(/^This API is restricted: .* k[12] /) as string,
    });
  }
});

test('what no rule names stays open', async () => {
  expect((await fetch(`${serve.url}/v2/models/rowsum/config`)).status).toBe(200);
  expect((await fetch(serve.metricsUrl)).status).toBe(200);
});
