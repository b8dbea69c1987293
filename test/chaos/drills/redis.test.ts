import { afterEach, describe, expect, it } from 'vitest';
import { type RedisServer, startRedis, until } from '../../support/redis.ts';
import { TcpProxy } from '../../support/tcp-proxy.ts';
import { type Drill, drillOn, startDrill } from '../drill.ts';
import { type DrillFigures, pause, randomOf, report, SEED, WHOLE } from '../drill-report.ts';

/** About 5 ms of one core. */
const LOOPS = 15;

describe('a pool whose Redis fails under load', () => {
  const random = randomOf(SEED);
  let drill: Drill;
  afterEach(() => drill.close());

  async function begin() {
    const worker = await drill.worker();
    const producer = await drill.producer();
    await drill.known(producer);
    const load = drill.load(producer, 60, LOOPS);
    await drill.steady();
    return { worker, producer, load };
  }

  it.for([
    ['with its data (AOF)', true],
    ['empty (no AOF)', false],
  ] as const)('D01: it is killed (SIGKILL) and comes back %s', async ([, persistent], context) => {
    drill = await startDrill({ persistent });
    const { worker, producer, load } = await begin();
    // Without its data jobs are lost, as the docs say; so there are none then.
    const jobs = persistent ? Array.from({ length: 20 }, () => drill.sendJob(producer, producer, 20 * LOOPS)) : [];
    await until('the jobs are taken', () => drill.jobsTaken === jobs.length);
    await pause(500 * random());
    await drill.redis.kill();
    await pause(3000);
    const refused = await drill.send(producer, LOOPS);
    expect(refused.status).toBe(503);
    expect(refused.endedMs - refused.startedMs).toBeLessThan(1000);
    await drill.redis.start();
    const backMs = performance.now();
    await drill.steady();
    load.stop();
    await Promise.all(jobs);
    const figures = report(context, await drill.outcomes(), backMs);
    expectRecovered(figures);
    worker.kill('SIGTERM');
    producer.kill('SIGTERM');
    expect([await worker.exited, await producer.exited]).toEqual([0, 0]);
  });

  it('D01: it stands still for 20 s', async (context) => {
    drill = await startDrill();
    const { load } = await begin();
    process.kill(drill.redis.pid, 'SIGSTOP');
    await pause(20_000);
    process.kill(drill.redis.pid, 'SIGCONT');
    const backMs = performance.now();
    await drill.steady();
    load.stop();
    const figures = report(context, await drill.outcomes(), backMs);
    expectRecovered(figures);
  });

  it('D01: all connections are cut every second', async (context) => {
    drill = await startDrill();
    const { load } = await begin();
    const cutter = drill.redis.client();
    for (let i = 0; i < (WHOLE ? 30 : 8); i += 1) {
      await cutter.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
      await pause(1000);
    }
    const endedMs = performance.now();
    await drill.steady();
    load.stop();
    const figures = report(context, await drill.outcomes(), endedMs);
    expectRecovered(figures);
    expect(figures.answered).toBe(figures.sent);
  });

  it(`D01: the network swallows everything for ${WHOLE ? 60 : 20} s`, async (context) => {
    const redis = await startRedis();
    const proxy = new TcpProxy(redis.port);
    drill = drillOn(redis, `redis://127.0.0.1:${await proxy.listen()}`);
    const { load } = await begin();
    proxy.swallow();
    await pause(WHOLE ? 60_000 : 20_000);
    proxy.carryOn();
    const backMs = performance.now();
    await drill.steady();
    load.stop();
    const figures = report(context, await drill.outcomes(), backMs);
    proxy.close();
    expect([figures.lost, figures.double]).toEqual([0, 0]);
    // A process finds a connection that vanished after 5 s without a word, and makes those anew that it cannot know of.
    expect(figures.firstMs).toBeLessThan(10_000);
    expect(figures.recoveryMs).toBeLessThan(30_000);
  });

  it('D16: it is full (maxmemory)', async (context) => {
    drill = await startDrill();
    const { producer, load } = await begin();
    const client = drill.redis.client();
    await client.set('ballast', Buffer.alloc(32 * 1024 * 1024));
    await client.config('SET', 'maxmemory', '32mb');
    await until('the producer says so', async () => (await readyOf(producer.url)) === 400);
    const refused = await drill.send(producer, LOOPS);
    expect(refused).toMatchObject({ status: 503, answer: expect.stringContaining('queue storage full') as unknown });
    await pause(2000);
    await client.del('ballast');
    const roomMs = performance.now();
    await drill.steady();
    load.stop();
    expect(await readyOf(producer.url)).toBe(200);
    const figures = report(context, await drill.outcomes(), roomMs);
    expectRecovered(figures);
  });

  it('it becomes a read-only replica, and a master again', async (context) => {
    let other: RedisServer | undefined;
    try {
      drill = await startDrill();
      const { producer, load } = await begin();
      other = await startRedis();
      const client = drill.redis.client();
      // A replica of one that does not let it in keeps what it has, and takes no writes.
      await other.client().config('SET', 'requirepass', 'secret');
      await client.replicaof('127.0.0.1', other.port);
      await until('the producer says so', async () => (await readyOf(producer.url)) === 400);
      const refused = await drill.send(producer, LOOPS);
      expect(refused).toMatchObject({ status: 503, answer: expect.stringContaining('READONLY') as unknown });
      await pause(3000);
      await client.replicaof('NO', 'ONE');
      const backMs = performance.now();
      await drill.steady();
      load.stop();
      expectRecovered(report(context, await drill.outcomes(), backMs));
    } finally {
      await other?.stop();
    }
  });
});

/**
 * Nothing is lost, and new requests are answered within 10 s. What was in the hands of a worker, or on its way there, may
 * take as long as with a worker that was killed.
 */
function expectRecovered({ lost, double, firstMs, recoveryMs }: DrillFigures): void {
  expect([lost, double]).toEqual([0, 0]);
  expect(firstMs).toBeLessThan(10_000);
  expect(recoveryMs).toBeLessThan(20_000);
}

async function readyOf(url: string): Promise<number> {
  return (await fetch(`${url}/v2/health/ready`)).status;
}
