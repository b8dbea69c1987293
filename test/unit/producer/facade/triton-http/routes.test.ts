import { create } from '@bufbuild/protobuf';
import type { FastifyInstance } from 'fastify';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { ModelConfigSchema } from '../../../../../shared/proto/generated/model_config_pb.ts';
import { FakeDispatcher, fakeModel, fakeSpec } from '../../../../support/fake-dispatcher.ts';
import { errorText, testApp } from '../../../../support/http-app.ts';

let dispatcher: FakeDispatcher;
let app: FastifyInstance;

beforeEach(() => {
  const versions = ['1', '3'];
  dispatcher = new FakeDispatcher([
    fakeModel('two_versions', { version: '1', versions }),
    fakeModel('two_versions', { version: '3', versions }),
    fakeModel('plain', {
      maxBatchSize: 0,
      inputs: [fakeSpec('a', 'INT32', [2, 3])],
      outputs: [fakeSpec('b', 'BYTES', [-1]), fakeSpec('c', 'FP16', [])],
      config: create(ModelConfigSchema, {
        name: 'plain',
        backend: 'onnxruntime',
        input: [{ name: 'a', dataType: 8, dims: [2n, 3n] }],
      }),
    }),
  ]);
  app = testApp(dispatcher);
});

afterEach(() => app.close());

const get = (url: string) => app.inject({ method: 'GET', url });

describe('health', () => {
  test.each([
    '/v2/health/live',
    '/v2/health/ready',
    '/v2/models/plain/ready',
    '/v2/models/two_versions/versions/3/ready',
  ])('%s answers 200 with an empty body', async (url) => {
    const response = await get(url);
    expect(response.statusCode).toBe(200);
    expect(response.rawPayload).toHaveLength(0);
  });

  test('is 400 while a model is not ready, or requests cannot be carried, and live all the same', async () => {
    dispatcher.catalogReady = false;
    expect((await get('/v2/health/ready')).statusCode).toBe(400);
    dispatcher.catalogReady = true;
    dispatcher.readiness = { ok: false, reason: 'Redis is away' };
    expect((await get('/v2/health/ready')).statusCode).toBe(400);
    expect((await get('/v2/health/ready')).payload).toBe('');
    expect((await get('/v2/health/live')).statusCode).toBe(200);
  });

  test('looks at the server alone without strict readiness', async () => {
    const lenient = testApp(dispatcher, { strictReadiness: false });
    dispatcher.catalogReady = false;
    expect((await lenient.inject('/v2/health/ready')).statusCode).toBe(200);
    dispatcher.readiness = { ok: false, reason: 'Redis is away' };
    expect((await lenient.inject('/v2/health/ready')).statusCode).toBe(400);
    await lenient.close();
  });

  test('is 503 with the reason for a model that can be called but has no worker', async () => {
    dispatcher.catalog.list = () => [{ name: 'plain', version: '1', state: 'UNAVAILABLE', reason: 'no worker' }];
    const response = await get('/v2/models/plain/ready');
    expect(response.statusCode).toBe(503);
    expect(errorText(response)).toContain('no worker');
  });

  test('is 404 for an unknown model or version', async () => {
    for (const url of ['/v2/models/no/ready', '/v2/models/plain/versions/9/ready']) {
      const response = await get(url);
      expect(response.statusCode).toBe(404);
      expect(errorText(response)).toMatch(/no|9/);
    }
  });
});

describe('metadata', () => {
  test('of the server names it, its version and its extensions', async () => {
    expect((await get('/v2')).json()).toEqual({
      name: 'millrace',
      version: '0.0.0-test',
      extensions: [
        'classification',
        'sequence',
        'model_repository',
        'schedule_policy',
        'model_configuration',
        'system_shared_memory',
        'cuda_shared_memory',
        'binary_tensor_data',
        'parameters',
        'statistics',
        'trace',
        'logging',
      ],
    });
  });

  test('of the server bears the name that the operator gave it', async () => {
    const named = testApp(new FakeDispatcher([]), { serverId: 'triton' });
    expect((await named.inject('/v2')).json()).toMatchObject({ name: 'triton' });
  });

  test('of a model lists its versions and tensors in the order of the config', async () => {
    expect((await get('/v2/models/plain')).json()).toEqual({
      name: 'plain',
      versions: ['1'],
      platform: 'onnxruntime_onnx',
      inputs: [{ name: 'a', datatype: 'INT32', shape: [2, 3] }],
      outputs: [
        { name: 'b', datatype: 'BYTES', shape: [-1] },
        { name: 'c', datatype: 'FP16', shape: [] },
      ],
    });
  });

  test('lists all ready versions, or only the one in the path', async () => {
    expect((await get('/v2/models/two_versions')).json()).toMatchObject({ versions: ['1', '3'] });
    expect((await get('/v2/models/two_versions/versions/1')).json()).toMatchObject({ versions: ['1'] });
  });

  test('decodes the model name and is case-sensitive', async () => {
    expect((await get('/v2/models/%70lain')).json()).toMatchObject({ name: 'plain' });
    expect((await get('/v2/models/Plain')).statusCode).toBe(404);
    expect((await get('/V2')).statusCode).toBe(404);
  });

  test('gives the config as JSON in Triton’s form', async () => {
    const response = await get('/v2/models/plain/config');
    expect(response.headers['content-type']).toMatch(/^application\/json/);
    expect(response.json()).toMatchObject({
      name: 'plain',
      backend: 'onnxruntime',
      max_batch_size: 0,
      input: [{ name: 'a', data_type: 'TYPE_INT32', dims: [2, 3], optional: false }],
    });
    expect((await get('/v2/models/two_versions/versions/3/config')).statusCode).toBe(200);
  });
});

describe('the repository index', () => {
  const index = (payload?: string) =>
    app.inject({ method: 'POST', url: '/v2/repository/index', ...(payload === undefined ? {} : { payload }) });

  test('is a bare array of all models with their states', async () => {
    dispatcher.states.push({ name: 'broken', version: '1', state: 'UNAVAILABLE', reason: 'no such file' });
    dispatcher.states.push({ name: 'empty', state: 'UNAVAILABLE', reason: 'no versions' });
    const rows: unknown[] = (await index()).json();
    expect(rows).toContainEqual({ name: 'plain', version: '1', state: 'READY' });
    expect(rows).toContainEqual({ name: 'broken', version: '1', state: 'UNAVAILABLE', reason: 'no such file' });
    expect(rows).toContainEqual({ name: 'empty', state: 'UNAVAILABLE', reason: 'no versions' });
    expect((await index('{}')).json()).toHaveLength(5);
  });

  test('can be asked for ready models only', async () => {
    dispatcher.states.push({ name: 'broken', version: '1', state: 'UNAVAILABLE', reason: 'no such file' });
    expect((await index('{"ready":true}')).json()).toHaveLength(3);
    expect((await index('{"ready":"yes"}')).statusCode).toBe(400);
    expect((await index('{')).statusCode).toBe(400);
  });
});

describe('routing', () => {
  test.each([
    '/v2/',
    '/v2/models',
    '/v2/health',
    '/v2/models/plain/',
    '/v2/models/plain/versions/abc/ready',
    '/v2/models/plain/versions/1.0',
    '/v2/models//infer',
    '/v1/models/plain',
    '/',
  ])('%s is 404 with one JSON error', async (url) => {
    const response = await get(url);
    expect(response.statusCode).toBe(404);
    expect(errorText(response)).toBe('Not Found');
  });

  test.each([
    ['POST', '/v2/health/live', 'GET, HEAD'],
    ['GET', '/v2/models/plain/infer', 'POST'],
    ['GET', '/v2/models/plain/versions/1/infer', 'POST'],
    ['GET', '/v2/repository/index', 'POST'],
    ['POST', '/v2/models/plain/config', 'GET, HEAD'],
    ['DELETE', '/v2/models/plain', 'GET, HEAD'],
  ] as const)('%s %s is 405 and names the right verbs', async (method, url, allow) => {
    const response = await app.inject({ method, url, ...(method === 'GET' ? {} : { payload: 'a body' }) });
    expect(response.statusCode).toBe(405);
    expect(errorText(response)).toBe('Method Not Allowed');
    expect(String(response.headers.allow).split(', ').sort().join(', ')).toBe(allow);
  });

  test('ignores the query string', async () => {
    expect((await get('/v2/health/ready?x=1')).statusCode).toBe(200);
  });

  test.each(['%ff', '..%2fplain', 'a'.repeat(5000), '%2e%2e', 'plain%00', '__proto__', 'constructor'])(
    'leads nowhere with the name %s',
    async (name) => {
      const response = await app.inject({ method: 'POST', url: `/v2/models/${name}/infer`, payload: '{}' });
      expect([400, 404, 414]).toContain(response.statusCode);
      expect(errorText(response).length).toBeLessThan(100);
      expect((await get('/v2/health/ready')).statusCode).toBe(200);
    },
  );
});
