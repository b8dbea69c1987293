import type { FastifyInstance } from 'fastify';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { JobDocument } from '../../../../../producer/facade/jobs/codec.ts';
import { Jobs } from '../../../../../producer/service/jobs/jobs.ts';
import { type ErrorCode, InferError } from '../../../../../shared/errors.ts';
import type { ReadyModel } from '../../../../../shared/model/ready-model.ts';
import { FakeDispatcher, fakeModel, fakeSpec } from '../../../../support/fake-dispatcher.ts';
import { errorText, testApp } from '../../../../support/http-app.ts';

const BODY = { inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 2], data: [1, 2] }] };
const STATE = 'millrace-job-state';

describe('what a job has come to', () => {
  let app: FastifyInstance;
  let models: ReadyModel[];
  let dispatcher: FakeDispatcher;
  beforeEach(() => {
    models = [fakeModel('m', { outputs: [fakeSpec('y', 'FP32', [-1, -1], { labels: ['low', 'high'] })] })];
    dispatcher = new FakeDispatcher(models);
    app = testApp(dispatcher, { maxOpenJobs: 2 });
  });
  afterEach(async () => {
    vi.restoreAllMocks();
    await app.close();
  });

  const submit = (headers: Record<string, string> = {}, body: object = BODY, path = '/v2/models/m/jobs?attempts=1') =>
    app.inject({ method: 'POST', url: path, payload: JSON.stringify(body), headers });
  const linksOf = async (...args: Parameters<typeof submit>) => (await submit(...args)).json<JobDocument>().links;

  it.each<[ErrorCode, number]>([
    ['RESOURCE_EXHAUSTED', 429],
    ['UNAVAILABLE', 503],
    ['INTERNAL', 500],
    ['INVALID_ARGUMENT', 400],
  ])('is told apart from a server that refuses, when it failed with %s', async (code, status) => {
    dispatcher.answers.set('m', () => {
      throw new InferError(code, 'not today', { retryAfterMs: 5000 });
    });
    const { result } = await linksOf();
    for (const answer of [
      await app.inject(`${result}?wait=10s`),
      await submit({ prefer: 'respond-async, wait=10' }, BODY, '/v2/models/m/jobs?attempts=1'),
    ]) {
      expect([answer.statusCode, errorText(answer)]).toEqual([status, 'not today']);
      expect(answer.headers[STATE]).toBe('failed');
      expect(answer.headers).not.toHaveProperty('retry-after');
    }
  });

  it('has its state beside it, and what is not over or was not taken has none', async () => {
    const { result } = await linksOf();
    const answer = await app.inject(`${result}?wait=10s`);
    expect([answer.statusCode, answer.headers[STATE]]).toEqual([200, 'succeeded']);
    const waits = await linksOf({}, BODY, '/v2/models/m/jobs?delay=1h');
    const pending = await app.inject(waits.result);
    expect([pending.statusCode, pending.headers[STATE], pending.headers['retry-after']]).toEqual([202, undefined, '1']);
    await submit({}, BODY, '/v2/models/m/jobs?delay=1h');
    const refused = await submit();
    expect([refused.statusCode, refused.headers[STATE], refused.headers['retry-after']]).toEqual([429, undefined, '1']);
    await app.inject({ method: 'DELETE', url: waits.self });
    const gone = await app.inject(waits.result);
    expect([gone.statusCode, gone.headers[STATE]]).toEqual([410, 'cancelled']);
  });

  it.each(['wait', 'result'] as const)('is not lost for a client that waits when %s fails', async (call) => {
    vi.spyOn(Jobs.prototype, call).mockRejectedValue(new InferError('UNAVAILABLE', 'Redis does not answer'));
    const answer = await submit({ prefer: 'respond-async, wait=10' });
    const { id } = answer.json<JobDocument>();
    expect([answer.statusCode, answer.headers.location]).toEqual([202, `/jobs/${id}`]);
    vi.restoreAllMocks();
    expect((await app.inject(`/jobs/${id}/result?wait=10s`)).statusCode).toBe(200);
  });

  it('can be had when the model has gone, with classes but without their labels', async () => {
    const outputs = [{ name: 'y', parameters: { classification: 2 } }];
    const { result } = await linksOf({}, { ...BODY, outputs });
    const classesOf = async () => {
      const answer = await app.inject(`${result}?wait=10s`);
      expect(answer.statusCode).toBe(200);
      return answer.json<{ outputs: [{ shape: number[]; data: string[] }] }>().outputs[0];
    };
    expect(await classesOf()).toMatchObject({ shape: [1, 2], data: ['2.000000:1:high', '1.000000:0:low'] });
    models.splice(0);
    expect(await classesOf()).toMatchObject({ shape: [1, 2], data: ['2.000000:1', '1.000000:0'] });
  });

  it('is found by its idempotency key when the model has gone, and by no other body', async () => {
    const headers = { 'idempotency-key': 'order' };
    const first = (await submit(headers)).json<JobDocument>();
    models.splice(0);
    const again = await submit(headers);
    expect([again.statusCode, again.json<JobDocument>().id]).toEqual([202, first.id]);
    expect((await submit(headers, { ...BODY, id: 'other' })).statusCode).toBe(422);
    expect((await submit({ 'idempotency-key': 'another' })).statusCode).toBe(404);
    expect((await submit()).statusCode).toBe(404);
  });
});
