import { type FastifyInstance, fastify } from 'fastify';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { registerBullDashboard } from '../../../producer/dashboard/bull-dashboard.ts';
import type { QueueDispatcher } from '../../../producer/dispatch/queue-dispatcher.ts';
import { silentLogger } from '../../../shared/runtime/logger.ts';
import { until } from '../../support/redis.ts';
import { callOf, requestOf } from '../../support/worker.ts';
import { knows, type Pool, startPool } from '../queue/pool.ts';

const TOKEN = 'correct-horse';
const READ_TOKEN = 'only-looking';
const headers = { authorization: `Bearer ${TOKEN}` };

interface ListedQueue {
  name: string;
  counts: Record<string, number>;
  isPaused: boolean;
  hasWorkers: boolean;
  jobs: { id: string; data: unknown }[];
}

describe('the queue dashboard over a real pool', () => {
  let pool: Pool;
  let producer: QueueDispatcher;
  let app: FastifyInstance;

  beforeEach(async () => {
    pool = await startPool();
    producer = await pool.producer();
    app = fastify();
    registerBullDashboard(app, {
      queues: () => producer.queues(),
      redis: pool.redis.client(),
      listenAddress: '0.0.0.0',
      token: TOKEN,
      readToken: READ_TOKEN,
      logger: silentLogger,
    });
  });
  afterEach(async () => {
    await app.close();
    await pool.close();
  });

  async function list(query = ''): Promise<{ queues: ListedQueue[]; text: string }> {
    const response = await app.inject({ url: `/dashboard/api/queues?${query}`, headers });
    expect(response.statusCode).toBe(200);
    return { queues: response.json<{ queues: ListedQueue[] }>().queues, text: response.body };
  }

  it('shows the queues of the models that there are, as they come', async () => {
    expect((await list()).queues).toEqual([]);
    await pool.worker([{ name: 'first' }]);
    await knows(producer, 'first');
    expect((await list()).queues).toMatchObject([{ name: 'first', hasWorkers: true }]);
    await pool.worker([{ name: 'second' }]);
    await knows(producer, 'second');
    expect((await list()).queues.map(({ name }) => name).sort()).toEqual(['first', 'second']);
  });

  it('shows shapes and sizes of a job and never what is in it', async () => {
    const { engine } = await pool.worker([{ name: 'echo' }]);
    engine.holding = true;
    await knows(producer, 'echo');
    const request = requestOf('echo', Buffer.from('a private sentence'), { parameters: { prompt: 'another one' } });
    const answer = producer.infer(request, callOf());
    await until('the request is held', () => engine.held.length === 1);
    await producer.queues()[0]!.add('forged', { inputs: [{ name: 'x', data: ['a private sentence', 0.12345] }] });
    const { queues, text } = await list('activeQueue=echo&status=latest');
    const shown = JSON.stringify(queues[0]!.jobs.map(({ data }) => data));
    expect(shown).toContain('"shape":[18]');
    expect(shown).toContain('"byteLength":18');
    expect(shown).toContain('list of 2');
    expect(text).not.toMatch(/private|another one|12345/);
    engine.release();
    await answer;
  });

  it('pauses a queue for whoever has the token, and for nobody else', async () => {
    await pool.worker([{ name: 'echo' }]);
    await knows(producer, 'echo');
    const pause = { method: 'PUT', url: '/dashboard/api/queues/echo/pause' } as const;
    expect((await app.inject(pause)).statusCode).toBe(401);
    const wrong = { authorization: `Bearer ${TOKEN}x` };
    expect((await app.inject({ ...pause, headers: wrong })).statusCode).toBe(401);
    expect((await list()).queues[0]!.isPaused).toBe(false);
    expect((await app.inject({ ...pause, headers })).statusCode).toBeLessThan(300);
    expect((await list()).queues[0]!.isPaused).toBe(true);
  });

  it('shows all of it to whoever has the token for reading, without the buttons', async () => {
    await pool.worker([{ name: 'echo' }]);
    await knows(producer, 'echo');
    const reading = { authorization: `Bearer ${READ_TOKEN}` };
    const url = '/dashboard/api/queues';
    expect((await app.inject({ url, headers: reading })).json()).toMatchObject({ queues: [{ readOnlyMode: true }] });
    expect((await app.inject({ url, headers })).json()).toMatchObject({ queues: [{ readOnlyMode: false }] });
    const pause = await app.inject({ method: 'PUT', url: `${url}/echo/pause`, headers: reading });
    expect(pause.statusCode).toBe(403);
  });

  it('tells why a job failed, and why it cannot run again or has it run where it can', async () => {
    const { engine } = await pool.worker([{ name: 'echo' }]);
    await knows(producer, 'echo');
    const [queue] = producer.queues();
    const input = { name: 'x', datatype: 'UINT8', shape: [4], byteLength: 4, offset: 0 };
    const of = (bundle: string, deadlineMs?: number) => ({
      v: 1,
      producer: 'somebody',
      bundle,
      model: 'echo',
      items: [{ sequence: 1, callId: 'c', deadlineMs, inputs: [input] }],
    });
    const retry = async (id: string) => {
      await until('it failed', async () => (await queue!.getJobState(id)) === 'failed');
      return app.inject({ method: 'PUT', url: `/dashboard/api/queues/echo/${id}/retry`, headers });
    };
    const gone = await queue!.add('infer', of('gone'));
    expect(await retry(gone.id!)).toMatchObject({
      statusCode: 409,
      body: expect.stringContaining('its tensors are not in Redis') as string,
    });
    expect((await queue!.getJob(gone.id!))!.failedReason).toBe(
      'UNAVAILABLE: the tensors of the request are no longer in the queue',
    );
    const all = { method: 'PUT', url: '/dashboard/api/queues/echo/retry/failed', headers } as const;
    expect((await app.inject(all)).statusCode).toBe(409);
    const foreign = await queue!.add('infer', { what: 'ever' });
    expect(await retry(foreign.id!)).toMatchObject({
      statusCode: 409,
      body: expect.stringContaining('cannot be read') as string,
    });
    await pool.redis.client().set('{millrace}.tensor:somebody:gone', 'abcd');
    expect((await retry(gone.id!)).statusCode).toBe(204);
    await until('it has run', () => engine.seen.length === 1);
  });

  it('answers while Redis is away, without telling where it is', async () => {
    await pool.worker([{ name: 'echo' }]);
    await knows(producer, 'echo');
    await pool.redis.kill();
    const response = await app.inject({ url: '/dashboard/api/queues', headers });
    expect(response.statusCode).toBeGreaterThanOrEqual(500);
    expect(response.body).not.toContain(String(pool.redis.port));
    expect((await app.inject({ url: '/dashboard', headers })).statusCode).toBe(200);
    await pool.redis.start();
    await until('the list is back', async () => {
      return (await app.inject({ url: '/dashboard/api/queues', headers })).statusCode === 200;
    });
  });
});
