import type { FastifyInstance } from 'fastify';
import Type from 'typebox';
import { Compile } from 'typebox/compile';
import { afterEach, expect, it } from 'vitest';
import { DrainedWorkerBody, PoolBody } from '../../../../../producer/facade/openapi/pool-schemas.ts';
import { registerPoolRoutes } from '../../../../../producer/facade/pool/routes.ts';
import { type Pool, type PoolView, viewWorker } from '../../../../../producer/pool/pool-view.ts';
import { InferError } from '../../../../../shared/errors.ts';
import { FakeDispatcher, fakeModel } from '../../../../support/fake-dispatcher.ts';
import { errorText, testApp } from '../../../../support/http-app.ts';

const RECORD = {
  id: 'w1',
  host: 'h',
  pid: 7,
  startedMs: Date.parse('2026-01-01T00:00:00Z'),
  devices: [{ kind: 'cpu' as const, name: 'x', count: 2 }],
  draining: false,
  controlled: false,
  models: [
    { name: 'm', version: '1', state: 'READY' as const, reason: '' },
    { name: 'n', state: 'UNAVAILABLE' as const, reason: 'no file' },
  ],
};
const PULSE = {
  requestsInHand: 2,
  loopDelayMs: 3,
  models: new Map([['m', { rowsInHand: 5, rowsPerSecond: 123.456, load: 0.5, lastJobMs: RECORD.startedMs }]]),
};
const VIEW: PoolView = {
  desired_workers: 2,
  latency_goal_ms: 1000,
  max_desired_workers: 10,
  workers: [viewWorker(RECORD, PULSE), viewWorker({ ...RECORD, models: RECORD.models.slice(1) }, undefined)],
  models: [
    {
      name: 'm',
      workers: 1,
      waiting_jobs: 0,
      waiting_rows: 0,
      running_rows: 5,
      rows_per_second: null,
      ms_per_row: null,
      desired_workers: 1,
    },
  ],
};

const drained: string[] = [];
const pool: Pool = {
  view: () => VIEW,
  drain: (name) => {
    drained.push(name);
    return name === 'h:7'
      ? Promise.resolve({ id: 'w1', name })
      : Promise.reject(new InferError('NOT_FOUND', `no worker of the pool is called '${name}'`));
  },
};

let app: FastifyInstance;
afterEach(() => {
  drained.length = 0;
  return app.close();
});

function start(closed?: string): void {
  const facades = [(scope: FastifyInstance) => registerPoolRoutes(scope, { pool, closed })];
  app = testApp(new FakeDispatcher([fakeModel('m')]), {}, { facades });
}

it('shows the pool as the OpenAPI document says', async () => {
  start();
  const answer = await app.inject({ method: 'GET', url: '/pool' });
  expect(answer.statusCode).toBe(200);
  expect([...Compile(Type.Unsafe(PoolBody)).Errors(answer.json())]).toEqual([]);
  expect(answer.json()).toEqual(VIEW);
  const [ready, broken] = VIEW.workers;
  expect(ready).toMatchObject({ name: 'h:7', state: 'ready', load: 0.5, last_job: '2026-01-01T00:00:00.000Z' });
  expect(ready!.models[0]).toMatchObject({ rows_per_second: 123, ms_per_row: 8.1, rows_in_hand: 5 });
  expect(broken).toMatchObject({ state: 'not_ready', reason: 'n is UNAVAILABLE: no file', loop_delay_ms: null });
});

it('asks a worker to drain, by a name of any form', async () => {
  start();
  const answer = await app.inject({ method: 'POST', url: `/pool/workers/${encodeURIComponent('h:7')}/drain` });
  expect(answer.json()).toEqual({ id: 'w1', name: 'h:7', state: 'draining' });
  expect([...Compile(Type.Unsafe(DrainedWorkerBody)).Errors(answer.json())]).toEqual([]);
  const unknown = await app.inject({ method: 'POST', url: '/pool/workers/a%2Fb/drain' });
  expect(unknown.statusCode).toBe(404);
  expect(errorText(unknown)).toBe("no worker of the pool is called 'a/b'");
});

it('drains nobody for a page of another site', async () => {
  start();
  const headers = { origin: 'http://evil.example', 'sec-fetch-site': 'cross-site' };
  const answer = await app.inject({ method: 'POST', url: '/pool/workers/h:7/drain', headers });
  expect(answer.statusCode).toBe(403);
  expect(drained).toEqual([]);
});

it('neither shows nor drains where the pool is closed', async () => {
  start('the pool is not shown here');
  for (const [method, url] of [
    ['GET', '/pool'],
    ['POST', '/pool/workers/h:7/drain'],
  ] as const) {
    const answer = await app.inject({ method, url });
    expect({ status: answer.statusCode, text: errorText(answer) }).toEqual({
      status: 403,
      text: 'the pool is not shown here',
    });
  }
  expect(drained).toEqual([]);
});
