import { once } from 'node:events';
import { request as send } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { FastifyInstance } from 'fastify';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { HttpSettings } from '../../../../../producer/http/http-settings.ts';
import { InferError } from '../../../../../shared/errors.ts';
import { FakeDispatcher, fakeModel } from '../../../../support/fake-dispatcher.ts';
import { errorText, testApp } from '../../../../support/http-app.ts';
import { until } from '../../../../support/redis.ts';

const row = (value: number, more: object = {}) =>
  JSON.stringify({ ...more, inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 1], data: [value] }] });

interface AnswerLine {
  readonly index?: number;
  readonly response?: { readonly id?: string; readonly outputs: readonly { readonly data: readonly number[] }[] };
  readonly error?: { readonly code: string; readonly status: number; readonly message: string };
  readonly progress?: { readonly done: number; readonly failed: number };
  readonly summary?: { readonly done: number; readonly failed: number; readonly complete: boolean; reason?: string };
}

const parse = (text: string) =>
  text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as AnswerLine);

describe('bulk requests', () => {
  let app: FastifyInstance;
  let dispatcher: FakeDispatcher;
  beforeEach(() => {
    dispatcher = new FakeDispatcher([fakeModel('m')]);
    app = testApp(dispatcher);
  });
  afterEach(async () => {
    dispatcher.letGo();
    await app.close();
  });

  const post = (payload: string, query = '', headers: Record<string, string> = {}) =>
    app.inject({ method: 'POST', url: `/v2/models/m/bulk${query}`, payload, headers });

  async function listening(settings: Partial<HttpSettings> = {}) {
    await app.close();
    app = testApp(dispatcher, settings);
    await app.listen({ port: 0, host: '127.0.0.1' });
    const { port } = app.server.address() as AddressInfo;
    const request = send({ port, method: 'POST', path: '/v2/models/m/bulk?concurrency=4' });
    request.on('error', () => undefined);
    request.flushHeaders();
    const [response] = (await once(request, 'response')) as [NodeJS.ReadableStream];
    let text = '';
    response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
    const ended = once(response, 'end');
    ended.catch(() => undefined);
    return { request, response, text: () => text, ended };
  }

  it('answer each line by a line with its number, and end with a summary', async () => {
    const answer = await post(`${row(1, { id: 'one' })}\n\n${row(2)}`);
    expect(answer.headers['content-type']).toBe('application/x-ndjson');
    const lines = parse(answer.payload);
    expect(lines).toHaveLength(3);
    expect(lines[0]).toMatchObject({ index: 0, response: { id: 'one', model_name: 'm', outputs: [{ data: [1] }] } });
    expect(lines[1]).toMatchObject({ index: 2, response: { outputs: [{ data: [2] }] } });
    expect(lines[2]).toEqual({ summary: { done: 2, failed: 0, complete: true } });
  });

  it('tell the error of a line on its own line and go on', async () => {
    const broken = ['{"inputs": [', '[]', row(1).replace('FP32', 'FP33'), row(4).replace('"x"', '"z"')];
    const lines = parse((await post([row(0), ...broken, row(5)].join('\n'), '?order=input')).payload);
    expect(lines.slice(0, -1).map(({ index, error }) => [index, error?.status])).toEqual([
      [0, undefined],
      [1, 400],
      [2, 400],
      [3, 400],
      [4, 400],
      [5, undefined],
    ]);
    expect(lines[1]!.error).toMatchObject({ code: 'INVALID_ARGUMENT' });
    expect(lines.at(-1)).toEqual({ summary: { done: 6, failed: 4, complete: true } });
  });

  it('answer as lines are done, or in the order of the input', async () => {
    dispatcher.answers.set('m', async ({ inputs: [x] }) => {
      const value = new Float32Array(x!.data.slice().buffer)[0]!;
      while (value === 0 && dispatcher.seen.length < 3) await new Promise(setImmediate);
      return [{ ...x!, name: 'y' }];
    });
    const body = [row(0), row(1), row(2)].join('\n');
    const done = parse((await post(body)).payload);
    expect(done.slice(0, -1).map(({ index }) => index)).toHaveLength(3);
    dispatcher.seen.length = 0;
    const ordered = parse((await post(body, '?order=input')).payload);
    expect(ordered.slice(0, -1).map(({ index }) => index)).toEqual([0, 1, 2]);
  });

  it('wait for room instead of failing lines while the server has too much at hand', async () => {
    let refusals = 2;
    dispatcher.answers.set('m', ({ inputs }) => {
      if (refusals-- > 0) throw new InferError('RESOURCE_EXHAUSTED', 'full');
      return [{ ...inputs[0]!, name: 'y' }];
    });
    expect(parse((await post(row(1))).payload).at(-1)).toEqual({ summary: { done: 1, failed: 0, complete: true } });
  });

  it.each([
    ['an unknown model', 404, '/v2/models/n/bulk', {}],
    ['more lines at once than there may be', 400, '/v2/models/m/bulk?concurrency=65', {}],
    ['an order that is none', 400, '/v2/models/m/bulk?order=up', {}],
    ['an unknown setting', 400, '/v2/models/m/bulk?ordr=input', {}],
    ['a compressed body', 415, '/v2/models/m/bulk', { 'content-encoding': 'gzip' }],
  ])('are refused with %s before the first line', async (_case, status, url, headers) => {
    const answer = await app.inject({ method: 'POST', url, payload: row(1), headers });
    expect(answer.statusCode).toBe(status);
    errorText(answer);
  });

  it('with no body have nothing but a summary', async () => {
    const answer = await app.inject({ method: 'POST', url: '/v2/models/m/bulk' });
    expect(parse(answer.payload)).toEqual([{ summary: { done: 0, failed: 0, complete: true } }]);
  });

  it('write outputs as JSON that a line wishes as bytes', async () => {
    const outputs = [{ name: 'y', parameters: { binary_data: true } }];
    const [line] = parse((await post(row(3, { outputs }))).payload);
    expect(line!.response!.outputs[0]!.data).toEqual([3]);
  });

  it('take no more lines at one time than they may', async () => {
    dispatcher.hold();
    const { request, text, ended } = await listening();
    request.end(Array.from({ length: 20 }, (_, value) => row(value)).join('\n'));
    await until('four lines are in hand', () => dispatcher.seen.length === 4);
    await new Promise((resolve) => setImmediate(resolve));
    expect(dispatcher.seen).toHaveLength(4);
    dispatcher.letGo();
    await ended;
    expect(parse(text()).at(-1)).toEqual({ summary: { done: 20, failed: 0, complete: true } });
  });

  it('stream both ways, for longer than other requests may take to arrive', async () => {
    const { request, text, ended } = await listening({ receiveTimeoutMs: 400, headersTimeoutMs: 100 });
    const end = performance.now() + 1200;
    for (let count = 1; performance.now() < end; count += 1) {
      request.write(`${row(count)}\n`);
      await until('the line is answered', () => text().trim().split('\n').length >= count && text().endsWith('\n'));
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    request.end();
    await ended;
    expect(parse(text()).at(-1)!.summary).toMatchObject({ failed: 0, complete: true });
  });

  it('are cut off when their client sends nothing for too long', async () => {
    const { request, response, text } = await listening({ receiveTimeoutMs: 200, headersTimeoutMs: 100 });
    request.write(`${row(1)}\n`);
    await once(response, 'close').catch(() => undefined);
    expect(text()).not.toContain('summary');
  });

  it('cancel what is in hand when the client hangs up', async () => {
    dispatcher.hold();
    const { request } = await listening();
    request.write(`${row(1)}\n${row(2)}\n`);
    await until('both lines are in hand', () => dispatcher.seen.length === 2);
    request.destroy();
    await until('both are cancelled', () => dispatcher.seen.every(({ call }) => call.error?.code === 'CANCELLED'));
  });

  it('end with what is in hand when the server closes', async () => {
    dispatcher.hold();
    const { request, text, ended } = await listening();
    request.write(`${row(1)}\n`);
    await until('the line is in hand', () => dispatcher.seen.length === 1);
    const closed = app.close();
    dispatcher.letGo();
    await ended;
    request.destroy();
    await closed;
    const summary = { done: 1, failed: 0, complete: false, reason: 'the server is shutting down' };
    expect(parse(text()).at(-1)).toEqual({ summary });
  });
});
