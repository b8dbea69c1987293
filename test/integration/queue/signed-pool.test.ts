import { Queue } from 'bullmq';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createQueueDispatcher } from '../../../producer/dispatch/queue-dispatcher.ts';
import { RedisJobStore } from '../../../producer/service/jobs/redis-job-store.ts';
import { silentLogger } from '../../../shared/runtime/logger.ts';
import { RedisLink } from '../../../shared/runtime/redis-link.ts';
import { type ControlEntry, encodeControlEntry } from '../../../shared/wire/control.ts';
import { CONTROL_KEY, QUEUE_PREFIX, queueName, replyKey } from '../../../shared/wire/names.ts';
import { parseQueueKeys, QueueKeys, type SignedThing } from '../../../shared/wire/queue-keys.ts';
import { encodeReplies } from '../../../shared/wire/reply.ts';
import { sealText } from '../../../shared/wire/sealed.ts';
import { PoolControl } from '../../../worker/consumer/pool-control.ts';
import { NO_TIME } from '../../support/fake-dispatcher.ts';
import { until } from '../../support/redis.ts';
import { callOf, type FakeEngine, requestOf } from '../../support/worker.ts';
import { knows, type Pool, startPool } from './pool.ts';

const OLD = `old ${Buffer.alloc(32, 1).toString('base64')}`;
const NEW = `new ${Buffer.alloc(32, 2).toString('base64')}`;
const keysOf = (text: string, acceptsUnsigned = false) => new QueueKeys(parseQueueKeys(text), acceptsUnsigned);
const refused = (keys: QueueKeys, thing: SignedThing) => keys.refused().get(thing);

describe('a pool with keys', () => {
  let pool: Pool;
  let queue: Queue;
  beforeEach(async () => {
    pool = await startPool();
    queue = new Queue(queueName('echo'), { connection: pool.redis.client(), prefix: QUEUE_PREFIX });
  });
  afterEach(async () => {
    await queue.close();
    await pool.close();
  });

  async function start(worker = OLD, producer = OLD) {
    const workerKeys = keysOf(worker);
    const producerKeys = keysOf(producer);
    const { engine } = await pool.worker([{ name: 'echo' }], { keys: workerKeys });
    const dispatcher = await pool.producer({ keys: producerKeys });
    await knows(dispatcher, 'echo');
    return { engine, dispatcher, workerKeys, producerKeys };
  }

  /** Holds a request in the queue, and gives its job to be looked at and changed. */
  async function waiting(engine: FakeEngine, dispatcher: Awaited<ReturnType<Pool['producer']>>) {
    await queue.pause();
    const seen = engine.seen.length;
    const answer = dispatcher.infer(requestOf('echo', Buffer.from('first')), callOf());
    answer.catch(() => undefined);
    await until('it waits', async () => (await queue.getJobCountByTypes('waiting')) === 1);
    const [job] = await queue.getJobs(['waiting']);
    expect(engine.seen).toHaveLength(seen);
    return { answer, job: job! };
  }

  async function failureOf(id: string): Promise<string> {
    await until('the job failed', async () => (await queue.getJobState(id)) === 'failed');
    return (await queue.getJob(id))!.failedReason;
  }

  it('answers requests, small and large, whichever of the keys of both sides signs', async () => {
    const { dispatcher } = await start(`${NEW}\n${OLD}`, `${OLD}\n${NEW}`);
    for (const size of [5, 40_000]) {
      const response = await dispatcher.infer(requestOf('echo', Buffer.alloc(size, 7)), callOf());
      expect(Buffer.from(response.outputs[0]!.data)).toEqual(Buffer.alloc(size, 7));
    }
  });

  it('gets a new key step by step while requests go on, and then knows the old one no more', async () => {
    const { dispatcher, engine, workerKeys, producerKeys } = await start();
    const echo = async (text: string) => {
      const { outputs } = await dispatcher.infer(requestOf('echo', Buffer.from(text)), callOf());
      return Buffer.from(outputs[0]!.data).toString();
    };
    const steps = [`${OLD}\n${NEW}`, `${NEW}\n${OLD}`, NEW];
    for (const step of steps) {
      for (const keys of [workerKeys, producerKeys]) {
        keys.replace(parseQueueKeys(step));
        expect(await echo(step.slice(0, 3))).toBe(step.slice(0, 3));
      }
    }
    const { job } = await waiting(engine, dispatcher);
    workerKeys.replace(parseQueueKeys(OLD));
    await queue.resume();
    expect(await failureOf(job.id!)).toBe('the job is signed with a key that is not known here');
  });

  it('fails a job that nobody signed, and answers nobody', async () => {
    const { engine, workerKeys } = await start();
    const input = { name: 'x', datatype: 'UINT8', shape: [4], byteLength: 4, offset: 0 };
    const items = [{ sequence: 1, callId: 'c', deadlineMs: 2 ** 50, inputs: [input] }];
    const job = await queue.add('infer', { v: 1, producer: 'somebody', bundle: '1', model: 'echo', items });
    expect(await failureOf(job.id!)).toBe('the job is not signed, and this pool takes signed ones only');
    expect(engine.seen).toEqual([]);
    expect(await pool.redis.client().exists(replyKey('somebody'))).toBe(0);
    expect(refused(workerKeys, 'job')).toBe(1);
  });

  it('fails a job whose reply address was changed', async () => {
    const { engine, dispatcher } = await start();
    const { job } = await waiting(engine, dispatcher);
    const data = job.data as { signed: string };
    await job.updateData({ ...data, signed: data.signed.replace(/"producer":"[^"]+"/, '"producer":"somebody"') });
    await queue.resume();
    expect(await failureOf(job.id!)).toBe('the signature of the job is wrong');
    expect(engine.seen).toEqual([]);
  });

  it('fails a job that was moved to another queue', async () => {
    const { engine, dispatcher } = await start();
    await pool.worker([{ name: 'other' }], { keys: keysOf(OLD) });
    const { job } = await waiting(engine, dispatcher);
    const other = new Queue(queueName('other'), { connection: pool.redis.client(), prefix: QUEUE_PREFIX });
    const moved = await other.add('infer', job.data);
    await until('the job failed', async () => (await moved.getState()) === 'failed');
    expect((await other.getJob(moved.id!))!.failedReason).toBe('the signature of the job is wrong');
    await other.close();
  });

  it('refuses a request whose tensors were changed, and says so to whoever waits', async () => {
    const { engine, dispatcher, workerKeys } = await start();
    const { answer } = await waiting(engine, dispatcher);
    const redis = pool.redis.client();
    const [key] = await redis.keys('{millrace}.tensor:*');
    await redis.set(key!, 'other');
    await queue.resume();
    await expect(answer).rejects.toMatchObject({
      code: 'UNAVAILABLE',
      message: expect.stringContaining('changed') as unknown,
    });
    expect(engine.seen).toEqual([]);
    expect(refused(workerKeys, 'tensors')).toBe(1);
  });

  it('takes no answer that nobody signed, and none that was for another producer', async () => {
    const { engine, dispatcher, producerKeys } = await start();
    engine.holding = true;
    const answer = dispatcher.infer(requestOf('echo', Buffer.from('true')), callOf());
    await until('it runs', () => engine.held.length === 1);
    const redis = pool.redis.client();
    const [job] = await queue.getActive();
    const { producer } = JSON.parse((job!.data as { signed: string }).signed) as { producer: string };
    const forged = encodeReplies([
      {
        sequence: 1,
        response: {
          model: 'echo',
          version: '1',
          outputs: [{ name: 'y', datatype: 'UINT8', shape: [5], data: Buffer.from('false') }],
          parameters: {},
          timings: NO_TIME,
        },
      },
    ]);
    const { key, mac } = keysOf(OLD).sign('reply', 'somebody', forged);
    await redis.xadd(replyKey(producer), '*', 'b', forged);
    await redis.xadd(replyKey(producer), '*', 'b', forged, 'k', key, 'm', mac);
    await redis.xadd(replyKey(producer), '*', 'b', forged, 'k', 'unknown', 'm', mac);
    await until('they are refused', () => refused(producerKeys, 'reply') === 3);
    engine.release();
    expect(Buffer.from((await answer).outputs[0]!.data).toString()).toBe('true');
  });

  it('knows no model that a stranger describes, and obeys no stranger', async () => {
    const { engine, dispatcher, producerKeys, workerKeys } = await start();
    const redis = pool.redis.client();
    const [worker] = dispatcher.catalog.workers();
    await redis.set(`{millrace}.drain:${worker!.id}`, '1');
    await until('it is refused', () => refused(workerKeys, 'drain') === 1);
    await redis.hset('{millrace}.traffic', 'echo', '{"v":1}');
    await until('it is refused', () => (refused(producerKeys, 'traffic') ?? 0) > 0);
    expect(engine.seen).toEqual([]);
    const stranger = await pool.worker([{ name: 'trojan' }]);
    await until('it is refused', () => (refused(producerKeys, 'description') ?? 0) > 0);
    expect(() => dispatcher.catalog.resolve('trojan', '')).toThrow();
    await stranger.consumer.close(0);
  });

  it('loads and unloads for nobody else, and not again what was asked before', async () => {
    const keys = keysOf(OLD);
    const asked: string[] = [];
    const control = {
      load: (model: string) => Promise.resolve(void asked.push(`load ${model}`)),
      unload: (model: string) => Promise.resolve(void asked.push(`unload ${model}`)),
    };
    const redis = pool.redis.client();
    const link = new RedisLink(redis, silentLogger);
    await link.start();
    const none = () => Promise.resolve();
    const worker = new PoolControl({
      redis,
      link,
      workerId: 'w',
      control,
      wake: none,
      announce: none,
      keys,
      logger: silentLogger,
    });
    await worker.start();
    const put = async (text: string) => {
      await redis.hset(CONTROL_KEY, 'm', text);
      return text;
    };
    const seal = (id: string, action: 'load' | 'unload') => {
      const entry = action === 'load' ? { config: undefined, files: [] } : { dependents: false };
      const text = encodeControlEntry({ id, turn: `${id}t`, action, ...entry } as ControlEntry); // one of the two forms
      return sealText(keys, 'control', 'm', text);
    };
    const first = await put(seal('c1', 'load'));
    await until('it is loaded', () => asked.length === 1);
    await put(seal('c2', 'unload'));
    await until('it is unloaded', () => asked.length === 2);
    await put(first);
    await until('it is refused', () => refused(keys, 'control') === 1);
    await put(encodeControlEntry({ id: 'c3', action: 'load', config: undefined, files: [] }));
    await until('it is refused', () => refused(keys, 'control') === 2);
    expect(asked).toEqual(['load m', 'unload m']);
    worker.close();
    link.close();
  });

  it('takes what is not signed as long as it is told to', async () => {
    await pool.worker([{ name: 'echo' }], { keys: keysOf(OLD, true) });
    const unsigned = await pool.producer();
    const signed = await pool.producer({ keys: keysOf(OLD, true) });
    for (const dispatcher of [unsigned, signed]) {
      await knows(dispatcher, 'echo');
      const response = await dispatcher.infer(requestOf('echo', Buffer.from('x')), callOf());
      expect(Buffer.from(response.outputs[0]!.data).toString()).toBe('x');
    }
  });

  describe('with jobs', () => {
    const store = async (keys: QueueKeys): Promise<RedisJobStore> => {
      const dispatcher = await createQueueDispatcher({ redisUrl: pool.redis.url, logger: silentLogger, keys });
      const jobs = new RedisJobStore({
        pool: dispatcher.pool,
        redisUrl: pool.redis.url,
        maxOpen: 10,
        logger: silentLogger,
      });
      await jobs.start();
      closing.push(
        () => jobs.close(),
        () => dispatcher.close(0),
      );
      return jobs;
    };
    const closing: (() => Promise<void>)[] = [];
    afterEach(async () => {
      for (const close of closing.splice(0)) await close();
    });

    const newJob = (text: string, key?: string) => ({
      request: requestOf('echo', Buffer.from(text)),
      settings: { priority: 0, delayMs: 0, timeoutMs: 60_000, maxAttempts: 1, keepMs: 60_000 },
      callId: 'c',
      level: 0,
      answer: '',
      tenant: '',
      idempotency: key === undefined ? undefined : { key, fingerprint: text },
    });

    async function done(jobs: RedisJobStore, id: string): Promise<void> {
      await until('it is over', async () => (await jobs.read(id))?.state === 'succeeded');
    }

    it('keeps records and answers that nobody else can write', async () => {
      await pool.worker([{ name: 'echo' }], { keys: keysOf(OLD) });
      const jobs = await store(keysOf(OLD));
      const [one, two] = [
        (await jobs.add(newJob('one', 'k1'))).record.id,
        (await jobs.add(newJob('two', 'k2'))).record.id,
      ];
      await done(jobs, one);
      await done(jobs, two);
      expect(Buffer.from((await jobs.result(one))!.outputs[0]!.data).toString()).toBe('one');
      const redis = pool.redis.client();
      await redis.copy(`{millrace}.job-result:${two}`, `{millrace}.job-result:${one}`, 'REPLACE');
      await expect(jobs.result(one)).rejects.toMatchObject({ code: 'INTERNAL' });
      await redis.hset(`{millrace}.job:${two}`, 'tenant', 'thief');
      await expect(jobs.read(two)).rejects.toMatchObject({ code: 'INTERNAL' });
      expect(
        (await jobs.list({ model: undefined, state: undefined, limit: 10, cursor: '' })).records.map(({ id }) => id),
      ).toEqual([one]);
    });

    it('believes no end that nobody signed, and no idempotency key that was bent to another job', async () => {
      const jobs = await store(keysOf(OLD));
      const open = (await jobs.add(newJob('open', 'k1'))).record.id;
      const other = (await jobs.add(newJob('open'))).record.id;
      const redis = pool.redis.client();
      const [mapping] = await redis.keys('{millrace}.job-key:*');
      await redis.hset(mapping!, 'id', other);
      await expect(jobs.add(newJob('open', 'k1'))).rejects.toMatchObject({ code: 'INTERNAL' });
      await redis.hset(`{millrace}.job:${open}`, 'state', 'failed', 'code', 'INTERNAL', 'message', 'made up');
      await expect(jobs.read(open)).rejects.toMatchObject({ code: 'INTERNAL' });
    });
  });
});
