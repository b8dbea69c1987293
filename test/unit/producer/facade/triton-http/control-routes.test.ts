import type { FastifyInstance } from 'fastify';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { BATCHING_REPORT } from '../../../../fixtures/batching-report.ts';
import { ModelStats } from '../../../../../shared/infer/model-stats.ts';
import { FakeDispatcher, fakeModel } from '../../../../support/fake-dispatcher.ts';
import { errorText, testApp } from '../../../../support/http-app.ts';
import { listen, RawConnection } from '../../../../support/raw-http.ts';

let dispatcher: FakeDispatcher;
let app: FastifyInstance;

beforeEach(() => {
  dispatcher = new FakeDispatcher([
    fakeModel('plain'),
    fakeModel('twice', { version: '1', versions: ['1', '2'] }),
    fakeModel('twice', { version: '2', versions: ['1', '2'] }),
  ]);
  app = testApp(dispatcher);
});
afterEach(() => app.close());

const get = (url: string) => app.inject(url);
const post = (url: string, payload?: object | string) =>
  app.inject({ method: 'POST', url, ...(payload === undefined ? {} : { payload }) });

describe('statistics', () => {
  test('of a model that was never called have every key, all zero', async () => {
    const nothing = { count: 0, ns: 0 };
    expect((await get('/v2/models/plain/stats')).json()).toEqual({
      model_stats: [
        {
          name: 'plain',
          version: '1',
          last_inference: 0,
          inference_count: 0,
          execution_count: 0,
          inference_stats: {
            success: nothing,
            fail: nothing,
            queue: nothing,
            compute_input: nothing,
            compute_infer: nothing,
            compute_output: nothing,
            cache_hit: nothing,
            cache_miss: nothing,
          },
          response_stats: {},
          batch_stats: [],
          memory_usage: [],
        },
      ],
    });
  });

  test('say what becomes of the requests of a model that batches', async () => {
    const stats = new ModelStats('plain', '1');
    stats.batching = BATCHING_REPORT;
    dispatcher.statistics.push(stats);
    const { model_stats: rows } = (await get('/v2/models/plain/stats')).json<{
      model_stats: { batching: unknown }[];
    }>();
    expect(rows[0]?.batching).toEqual({
      merges: true,
      max_rows: 8,
      delay_us: 1500,
      auto: true,
      slo_p99_ms: 50,
      reason: 'because',
      sizes: [1, 2, 4, 8],
      curve: BATCHING_REPORT.curve,
      company: { relative: 0.1, max_abs: 3, cosine: 0.99, tolerance: 0.2 },
    });
  });

  test('count executions by their size, smallest first', async () => {
    const stats = new ModelStats('plain', '1');
    for (const batchSize of [4, 2, 4]) {
      stats.recordSuccess(batchSize, 10, {
        queueUs: 1,
        computeInputUs: 2,
        computeInferUs: 3,
        computeOutputUs: 4,
        batchSize,
        executions: 1,
        release: 'full',
      });
    }
    dispatcher.statistics.push(stats);
    const { model_stats: rows } = (await get('/v2/models/plain/stats')).json<{ model_stats: unknown[] }>();
    expect(rows).toMatchObject([
      {
        inference_count: 10,
        execution_count: 3,
        inference_stats: { success: { count: 3, ns: 30_000 } },
        batch_stats: [
          { batch_size: 2, compute_infer: { count: 1, ns: 3000 } },
          { batch_size: 4, compute_infer: { count: 2, ns: 6000 } },
        ],
      },
    ]);
  });

  test.each([
    ['/v2/models/stats', ['plain/1', 'twice/1', 'twice/2']],
    ['/v2/models/twice/stats', ['twice/1', 'twice/2']],
    ['/v2/models/twice/versions/2/stats', ['twice/2']],
  ])('%s are those of %j', async (url, versions) => {
    const { model_stats: rows } = (await get(url)).json<{ model_stats: { name: string; version: string }[] }>();
    expect(rows.map(({ name, version }) => `${name}/${version}`)).toEqual(versions);
  });

  test.each(['/v2/models/none/stats', '/v2/models/twice/versions/9/stats'])('%s is 404', async (url) => {
    const response = await get(url);
    expect(response.statusCode).toBe(404);
    expect(errorText(response)).toBeTruthy();
  });
});

describe('load and unload', () => {
  test.each(['load', 'unload'])('%s is 503 with the reason', async (action) => {
    const response = await post(`/v2/repository/models/plain/${action}`, {});
    expect(response.statusCode).toBe(503);
    expect(errorText(response)).toContain('explicit model load / unload is not allowed');
  });

  test.each(['load', 'unload'])('%s of a named repository is 501', async (action) => {
    expect((await post(`/v2/repository/main/models/plain/${action}`)).statusCode).toBe(501);
  });

  test.each([
    ['load', '..%2fplain', {}],
    ['load', 'a%5cb', {}],
    ['load', 'plain', { parameters: [] }],
    ['load', 'plain', { parameters: { speed: 'fast' } }],
    ['load', 'plain', { parameters: { config: 5 } }],
    ['load', 'plain', { parameters: { config: '{}', 'file:1/model.onnx': 'not base64!' } }],
    ['load', 'plain', { parameters: { 'file:1/model.onnx': 'eA==' } }],
    ['unload', 'plain', { parameters: { unload_dependents: 'yes' } }],
    ['unload', 'plain', { parameters: { config: '{}' } }],
    ['unload', 'plain', 'not json'],
  ])('%s of %s with %j is 400', async (action, model, body) => {
    const response = await post(`/v2/repository/models/${model}/${action}`, body);
    expect(response.statusCode).toBe(400);
    expect(errorText(response)).toBeTruthy();
  });

  test('the index takes a repository’s name and does not look at it', async () => {
    expect((await post('/v2/repository/main/index')).json()).toHaveLength(3);
  });
});

describe('trace settings', () => {
  test('are answered in full after a change, numbers as texts', async () => {
    const response = await post('/v2/trace/setting', { trace_rate: '500', trace_level: ['OFF'] });
    expect(response.json()).toEqual({
      trace_level: ['OFF'],
      trace_rate: '500',
      trace_count: '-1',
      log_frequency: '0',
      trace_file: '',
      trace_mode: 'triton',
    });
  });

  test('of a model give way to the server’s on null', async () => {
    await post('/v2/models/plain/trace/setting', { trace_rate: '7' });
    expect((await get('/v2/models/plain/trace/setting')).json()).toMatchObject({ trace_rate: '7' });
    expect((await get('/v2/trace/setting')).json()).toMatchObject({ trace_rate: '1000' });
    await post('/v2/models/plain/trace/setting', { trace_rate: null });
    expect((await get('/v2/models/plain/trace/setting')).json()).toMatchObject({ trace_rate: '1000' });
  });

  test.each([
    [undefined, 400],
    ['[]', 400],
    [{ trace_rate: 500 }, 400],
    [{ trace_level: [1] }, 400],
    [{ trace_level: [] }, 400],
    [{ trace_file: 'x' }, 501],
  ])('%j is %i', async (body, code) => {
    expect((await post('/v2/trace/setting', body)).statusCode).toBe(code);
  });

  test('of an unknown model are 404', async () => {
    expect((await get('/v2/models/none/trace/setting')).statusCode).toBe(404);
    expect((await post('/v2/models/none/trace/setting', {})).statusCode).toBe(404);
  });
});

describe('log settings', () => {
  test('are typed, and change', async () => {
    expect((await post('/v2/logging', { log_info: false })).json()).toEqual({
      log_file: '',
      log_info: false,
      log_warning: true,
      log_error: true,
      log_verbose_level: 0,
      log_format: 'default',
    });
    expect((await get('/v2/logging')).json()).toMatchObject({ log_info: false });
  });

  test.each([undefined, '', { log_info: 'no' }])('%j is 400', async (body) => {
    expect((await post('/v2/logging', body)).statusCode).toBe(400);
  });
});

describe('control calls', () => {
  test('have the limit of JSON, whatever the header says that belongs to infer', async () => {
    const small = testApp(dispatcher, { maxJsonBytes: 1024, maxBodyBytes: 1024 * 1024 });
    for (const url of [
      '/v2/logging',
      '/v2/trace/setting',
      '/v2/repository/index',
      '/v2/systemsharedmemory/unregister',
    ]) {
      const headers = { 'inference-header-content-length': '2' };
      const response = await small.inject({ method: 'POST', url, headers, payload: `{"a":"${'x'.repeat(2000)}"}` });
      expect(response.statusCode).toBe(413);
    }
    await small.close();
  });

  test.each(['/v2/logging', '/v2/trace/setting'])('of %s are refused to pages of other sites', async (url) => {
    const change = (headers: Record<string, string>) => app.inject({ method: 'POST', url, headers, payload: {} });
    expect((await change({ origin: 'https://elsewhere.example' })).statusCode).toBe(403);
    expect((await change({ 'sec-fetch-site': 'cross-site' })).statusCode).toBe(403);
    expect((await change({ host: 'localhost:8000', origin: 'http://localhost:8000' })).statusCode).toBe(200);
  });

  test('are refused to a page that reached this machine by a name of its own', async () => {
    const connection = new RawConnection(await listen(app));
    for (const [host, status] of [
      ['rebound.example', 403],
      ['localhost', 200],
    ] as const) {
      connection.clear();
      connection.send(
        `POST /v2/logging HTTP/1.1\r\nHost: ${host}\r\nOrigin: http://${host}\r\nContent-Length: 2\r\n\r\n{}`,
      );
      await connection.until(new RegExp(`^HTTP/1.1 ${status} `));
    }
    connection.socket.destroy();
  });
});
