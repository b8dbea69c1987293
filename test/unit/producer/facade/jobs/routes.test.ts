import type { FastifyInstance } from 'fastify';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { JobDocument } from '../../../../../producer/facade/jobs/codec.ts';
import { parseRestrictions } from '../../../../../producer/service/restricted-access.ts';
import { InferError } from '../../../../../shared/errors.ts';
import { FakeDispatcher, fakeModel } from '../../../../support/fake-dispatcher.ts';
import { errorText, testApp } from '../../../../support/http-app.ts';
import { until } from '../../../../support/redis.ts';
import { useShm } from '../../../../support/shm.ts';

const BODY = { inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 2], data: [1, 2] }] };

describe('the routes of jobs', () => {
  const createShm = useShm();
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

  const submit = (headers: Record<string, string> = {}, body: object = BODY, path = '/v2/models/m/jobs') =>
    app.inject({ method: 'POST', url: path, payload: JSON.stringify(body), headers });

  it('tell the id of a request in the errors of its job, as infer does', async () => {
    dispatcher.answers.set('m', () => {
      throw new InferError('INVALID_ARGUMENT', 'not today');
    });
    const { links } = (await submit({}, { ...BODY, id: 'mine' })).json<JobDocument>();
    const result = await app.inject(`${links.result}?wait=10s`);
    expect([result.statusCode, errorText(result)]).toEqual([400, '[request id: mine] not today']);
    const job = (await app.inject(links.self)).json<JobDocument>();
    expect(job.error).toEqual({ code: 'INVALID_ARGUMENT', status: 400, message: 'not today' });
  });

  it('pass the priority of the request on to its run', async () => {
    const { links } = (await submit({}, { ...BODY, parameters: { priority: 2 } })).json<JobDocument>();
    await app.inject(`${links.self}?wait=10s`);
    expect(dispatcher.seen[0]!.call.priority).toBe(2);
  });

  it('do not take outputs in shared memory', async () => {
    await app.close();
    app = testApp(dispatcher, { allowClientShm: true });
    const region = { key: createShm(Buffer.alloc(8)).key, offset: 0, byte_size: 8 };
    await submit({}, region, '/v2/systemsharedmemory/region/r/register');
    const outputs = [{ name: 'y', parameters: { shared_memory_region: 'r', shared_memory_byte_size: 8 } }];
    const refused = await submit({}, { ...BODY, outputs });
    expect([refused.statusCode, errorText(refused)]).toEqual([
      400,
      'outputs of a job cannot go to shared memory, expected none that do',
    ]);
    expect((await submit({}, {}, '/v2/systemsharedmemory/region/r/unregister')).statusCode).toBe(200);
  });

  it('compress a result for clients that take it', async () => {
    const { links } = (await submit()).json<JobDocument>();
    const result = await app.inject({ url: `${links.result}?wait=10s`, headers: { 'accept-encoding': 'gzip' } });
    expect([result.statusCode, result.headers['content-encoding']]).toEqual([200, 'gzip']);
  });

  it('answer a client that waits with the job when its time is over', async () => {
    dispatcher.hold();
    const waiting = submit({ prefer: 'respond-async, wait=1' }, BODY, '/v2/models/m/infer');
    const answer = await waiting;
    expect([answer.statusCode, answer.headers['preference-applied']]).toEqual([202, 'respond-async, wait=1']);
    expect(answer.json<JobDocument>().state).toBe('running');
  });

  it('let everybody go when the server closes', async () => {
    dispatcher.hold();
    const { links } = (await submit()).json<JobDocument>();
    const [state, events] = [app.inject(`${links.self}?wait=1m`), app.inject(links.events)];
    await until('it runs', () => dispatcher.seen.length === 1);
    const closed = app.close();
    expect((await state).json<JobDocument>().state).toBe('running');
    expect((await events).payload).toMatch(/^event: (queued|running)\ndata: /);
    await closed;
  });

  it('belong to inference where calls are restricted', async () => {
    const restrictions = parseRestrictions('--http-restricted-api', ['inference:key=secret']);
    const guarded = testApp(dispatcher, {}, { restrictions });
    const calls = [
      ['POST', '/v2/models/m/jobs'],
      ['POST', '/v2/models/m/versions/1/jobs'],
      ['GET', '/jobs'],
      ['GET', '/jobs/x'],
      ['GET', '/jobs/x/result'],
      ['GET', '/jobs/x/events'],
      ['DELETE', '/jobs/x'],
    ] as const;
    for (const [method, url] of calls) {
      expect((await guarded.inject({ method, url })).statusCode, url).toBe(403);
      expect((await guarded.inject({ method, url, headers: { key: 'secret' } })).statusCode, url).not.toBe(403);
    }
    await guarded.close();
  });
});
