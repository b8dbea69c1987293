import type { FastifyInstance, LightMyRequestResponse } from 'fastify';
import { afterEach, beforeEach, describe, expect, it, test } from 'vitest';
import { InferError } from '../../../../../shared/errors.ts';
import { encodeTexts } from '../../../../../shared/tensor/bytes.ts';
import { FakeDispatcher, fakeIdentity, fakeModel, fakeSpec } from '../../../../support/fake-dispatcher.ts';
import { errorText, testApp } from '../../../../support/http-app.ts';
import { listen, RawConnection } from '../../../../support/raw-http.ts';

const vector = (name: string, datatype: 'FP32' | 'INT64' | 'UINT64' | 'BOOL' | 'BYTES') =>
  fakeIdentity(name, datatype, {
    inputs: [fakeSpec('x', datatype, [-1, 4])],
    outputs: [fakeSpec('y', datatype, [-1, 4])],
  });

let dispatcher: FakeDispatcher;
let app: FastifyInstance;

beforeEach(() => {
  dispatcher = new FakeDispatcher([
    vector('fp32', 'FP32'),
    vector('int64', 'INT64'),
    vector('uint64', 'UINT64'),
    vector('bool', 'BOOL'),
    fakeIdentity('text', 'BYTES', {
      inputs: [fakeSpec('x', 'BYTES', [-1, 1])],
      outputs: [fakeSpec('y', 'BYTES', [-1, 1])],
    }),
    fakeModel('odd_names', {
      maxBatchSize: 0,
      inputs: ['id', 'parameters'].map((name) => fakeSpec(name, 'FP32', [-1])),
      outputs: ['id', 'model_name'].map((name) => fakeSpec(name, 'FP32', [-1])),
    }),
    ...(['[-1,-1]', '[2,3]', '[-1,-1,3]', '[]', '[-1]'] as const).map((text) =>
      fakeIdentity(text, 'FP32', {
        maxBatchSize: 0,
        inputs: [fakeSpec('x', 'FP32', JSON.parse(text) as number[])],
        outputs: [fakeSpec('y', 'FP32', JSON.parse(text) as number[])],
      }),
    ),
  ]);
  app = testApp(dispatcher, { maxJsonBytes: 10_000 });
});
afterEach(() => app.close());

const post = (model: string, body: unknown, call = 'generate', headers = {}) =>
  app.inject({
    method: 'POST',
    url: `/v2/models/${encodeURIComponent(model)}/${call}`,
    payload: typeof body === 'string' ? body : JSON.stringify(body),
    headers,
  });

async function refused(model: string, body: unknown, status = 400): Promise<string> {
  const answer = await post(model, body);
  expect(answer.statusCode, answer.payload).toBe(status);
  return errorText(answer);
}

const shapeOf = () => dispatcher.seen.at(-1)?.request.inputs[0]?.shape;

describe('generate', () => {
  it('takes inputs as keys and gives outputs as keys', async () => {
    const answer = await post('fp32', { id: 'g1', x: [1, 2, 3, 4.5] });
    expect(answer.statusCode).toBe(200);
    expect(answer.headers['content-type']).toBe('application/json');
    expect(answer.json()).toEqual({ id: 'g1', model_name: 'fp32', model_version: '1', y: [1, 2, 3, 4.5] });
    expect(answer.headers['x-request-id']).toBeDefined();
  });

  it('takes and gives a single element without a list', async () => {
    expect((await post('text', { x: 'zwölf\n' })).json()).toEqual({
      model_name: 'text',
      model_version: '1',
      y: 'zwölf\n',
    });
    expect((await post('text', { x: ['hello'] })).json()).toMatchObject({ y: 'hello' });
    expect((await post('[]', { x: 1.5 })).json()).toMatchObject({ y: 1.5 });
    expect((await post('[-1]', { x: [] })).json()).toMatchObject({ y: [] });
  });

  it('asks a version when the path names one', async () => {
    const answer = await app.inject({
      method: 'POST',
      url: '/v2/models/text/versions/1/generate',
      payload: '{"x":"a"}',
    });
    expect(answer.json()).toMatchObject({ y: 'a', model_version: '1' });
    expect(dispatcher.seen[0]?.request.version).toBe('1');
    expect(
      (await app.inject({ method: 'POST', url: '/v2/models/text/versions/2/generate', payload: '{}' })).statusCode,
    ).toBe(404);
  });

  it.each([
    ['[-1,-1]', 6, [1, 6]],
    ['[2,3]', 6, [2, 3]],
    ['[-1,-1,3]', 6, [1, 2, 3]],
    ['[]', 1, []],
    ['[-1]', 6, [6]],
  ])('fits into shape %s a list of %i elements as %j', async (model, count, shape) => {
    expect((await post(model, { x: Array.from({ length: count }, () => 0) })).statusCode).toBe(200);
    expect(shapeOf()).toEqual(shape);
  });

  it('fills the batch dimension with what the fixed ones leave', async () => {
    await post('fp32', { x: [1, 2, 3, 4, 5, 6, 7, 8] });
    expect(shapeOf()).toEqual([2, 4]);
  });

  it('keeps every digit of 64-bit integers, in and out', async () => {
    const longs = await post('int64', '{"x":[9007199254740993,-9223372036854775808,0,-1]}');
    expect(longs.payload).toContain('"y":[9007199254740993,-9223372036854775808,0,-1]');
    const nested = await post('uint64', '{"parameters":{"x":[18446744073709551615,1,2,3],"n":9007199254740993}}');
    expect(nested.payload).toContain('"y":[18446744073709551615,1,2,3]');
    expect(dispatcher.seen.at(-1)?.request.parameters).toEqual({ n: 9007199254740993n });
  });

  it('writes what JSON has no number for as strict JSON', async () => {
    const answer = await post('fp32', { x: ['NaN', 'Infinity', '-Infinity', 1] });
    expect(answer.json()).toMatchObject({ y: ['NaN', 'Infinity', '-Infinity', 1] });
  });

  it('writes bare words for a client that writes them itself', async () => {
    const answer = await post('fp32', '{"x":[NaN,Infinity,-Infinity,1]}');
    expect(answer.payload).toContain('"y":[NaN,Infinity,-Infinity,1]');
  });

  it('makes parameters of all other keys, beside and inside parameters', async () => {
    await post('text', {
      x: 'a',
      stream: false,
      parameters: { temperature: 0.5, who: 'me' },
      timeout: 2_000_000,
      priority: 3,
    });
    const { request, call } = dispatcher.seen[0]!;
    expect(request.parameters).toEqual({
      stream: false,
      temperature: 0.5,
      who: 'me',
      timeout: 2_000_000,
      priority: 3,
    });
    expect(call.priority).toBe(3);
  });

  it('takes inputs inside parameters', async () => {
    expect((await post('text', { parameters: { x: 'a' } })).json()).toMatchObject({ y: 'a' });
  });

  it('leaves names of inputs and outputs what they are, whatever they are called', async () => {
    expect((await post('odd_names', { id: [1, 2], parameters: 3 })).json()).toEqual({
      id: [1, 2],
      model_name: 3,
      model_version: '1',
    });
  });

  it('takes "__proto__" for a parameter like any other', async () => {
    await post('text', '{"x":"a","__proto__":"b"}');
    expect(Object.entries(dispatcher.seen[0]!.request.parameters)).toEqual([['__proto__', 'b']]);
  });

  it.each([
    ['fp32', '', 'the request has no body'],
    ['fp32', '{', 'cannot be parsed'],
    ['fp32', '[]', 'the request must be an object, got an array'],
    ['fp32', {}, 'input x is missing'],
    ['fp32', { x: [1, 2, 3] }, 'input x: 3 elements do not fit shape [-1,4]'],
    ['[2,3]', { x: [1, 2, 3] }, '3 elements do not fit shape [2,3]'],
    ['fp32', { x: [] }, 'batch size must be at least 1'],
    ['fp32', { x: ['a', 'b', 'c', 'd'] }, 'element 0: expected a number'],
    [
      'fp32',
      {
        x: [
          [1, 2],
          [3, 4],
        ],
      },
      'expected a single value or a flat list of them, got an array inside the list',
    ],
    ['fp32', { x: null }, 'a flat list of them, got null'],
    ['fp32', { x: { data: [1] } }, 'got an object'],
    ['bool', { x: [0, 1, 0, 1] }, 'true or false'],
    ['int64', '{"x":[9223372036854775808,0,0,0]}', 'element 0: expected an integer'],
    ['text', { x: 'a', X: ['a'] }, 'model text: X is neither an input (expected x) nor a parameter'],
    ['text', { x: 'a', k: null }, 'got null'],
    ['text', { x: 'a', parameters: [1] }, 'parameters must be an object, got an array'],
    ['text', { x: 'a', parameters: { x: 'b' } }, 'x is given twice'],
    ['text', { x: 'a', triton_x: 1 }, 'reserved'],
    ['text', { x: 'a', timeout: -1 }, 'parameter timeout must be a whole number'],
    ['text', { x: 'a', id: 5 }, 'id must be a string'],
    ['text', { id: 'mine', x: 5 }, '[request id: mine] '],
    ['text', { id: 'mine' }, '[request id: mine] '],
  ])('refuses for model %s the body %j', async (model, body, text) => {
    expect(await refused(model, body)).toContain(text);
  });

  it('refuses unknown models, encodings and bodies beyond the limit', async () => {
    expect(await refused('nobody', {}, 404)).toContain('nobody');
    const encoded = await post('text', '{"x":"a"}', 'generate', { 'content-encoding': 'gzip' });
    expect(encoded.statusCode).toBe(400);
    expect((await post('text', '{"x":"a"}', 'generate', { 'content-encoding': 'Identity' })).statusCode).toBe(200);
    expect((await post('text', { x: 'a'.repeat(10_000) })).statusCode).toBe(413);
    const withHeader = { 'inference-header-content-length': '9' };
    expect((await post('text', { x: 'a'.repeat(10_000) }, 'generate', withHeader)).statusCode).toBe(413);
  });

  it('refuses an answer that has no JSON form', async () => {
    const data = encodeTexts(['a']).fill(0xff, 4);
    dispatcher.answers.set('text', () => [{ name: 'y', datatype: 'BYTES', shape: [1, 1], data }]);
    expect(await refused('text', { x: 'a' })).toContain('not UTF-8');
  });
});

describe('generate_stream', () => {
  const eventOf = (answer: LightMyRequestResponse): unknown => {
    expect(answer.headers['content-type']).toBe('text/event-stream; charset=utf-8');
    expect(answer.payload).toMatch(/^data: \{.*\}\n\n$/);
    return JSON.parse(answer.payload.slice('data: '.length));
  };

  it('gives the answer as one event', async () => {
    const answer = await post('text', { x: 'two\nlines' }, 'generate_stream');
    expect(answer.statusCode).toBe(200);
    expect(eventOf(answer)).toEqual({ model_name: 'text', model_version: '1', y: 'two\nlines' });
  });

  it('gives an error of the run as an event, with the status that it has elsewhere', async () => {
    dispatcher.answers.set('text', () => Promise.reject(new InferError('UNAVAILABLE', 'no worker')));
    const answer = await post('text', { x: 'a', id: 'mine' }, 'generate_stream');
    expect(answer.statusCode).toBe(503);
    expect(eventOf(answer)).toEqual({ error: '[request id: mine] no worker' });
    expect(answer.headers['x-request-id']).toBeDefined();
  });

  it('shows nothing of a foreign error', async () => {
    dispatcher.answers.set('text', () => Promise.reject(new Error('/secret/path')));
    const answer = await post('text', { x: 'a' }, 'generate_stream');
    expect(answer.statusCode).toBe(500);
    expect(eventOf(answer)).toEqual({ error: 'internal error' });
  });

  it('refuses a bad request like generate does', async () => {
    const answer = await post('text', '{', 'generate_stream');
    expect(answer.statusCode).toBe(400);
    expect(errorText(answer)).toContain('cannot be parsed');
    expect((await post('nobody', {}, 'generate_stream')).statusCode).toBe(404);
  });
});

test.each(['generate', 'generate_stream'])('a client that hangs up cancels its %s', async (call) => {
  dispatcher.hold();
  const gone = new RawConnection(await listen(app));
  gone.send(`POST /v2/models/text/${call} HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{"x":"a"}`);
  await expect.poll(() => dispatcher.seen.length).toBe(1);
  gone.socket.destroy();
  await expect.poll(() => dispatcher.seen[0]?.call.error?.code).toBe('CANCELLED');
  dispatcher.letGo();
});

test.each(['generate', 'generate_stream'])('%s is for POST alone', async (call) => {
  const answer = await app.inject({ method: 'GET', url: `/v2/models/text/${call}` });
  expect(answer.statusCode).toBe(405);
  expect(answer.headers.allow).toBe('POST');
});
