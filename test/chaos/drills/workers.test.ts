import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ROOT } from '../../support/process.ts';
import { until } from '../../support/redis.ts';
import { type Drill, startDrill } from '../drill.ts';
import { isGood, pause, randomOf, report, SEED, WHOLE } from '../drill-report.ts';

/** About 10 ms of one core. */
const LOOPS = 30;
/** The lease of its jobs and the check for those that have run out, twice, as a busy machine may take. */
const RECOVERED_MS = 25_000;
/** Lets the process fill its heap on a signal, which ends it as running out of memory does. */
const OUT_OF_MEMORY = `process.on('SIGUSR2', () => { const all = []; for (;;) all.push(new Array(1e5).fill({})); });`;

/** Lets every run of the process fail from a signal on, as on a GPU that has failed once. */
const BROKEN = `
import { FailureStreak } from '${pathToFileURL(join(ROOT, 'dist/worker/consumer/failure-streak.js')).href}';
const { wrap } = FailureStreak.prototype;
let isBroken = false;
process.on('SIGUSR2', () => (isBroken = true));
FailureStreak.prototype.wrap = function (infer) {
  return wrap.call(this, (...of) => (isBroken ? Promise.reject(new Error('illegal memory access')) : infer(...of)));
};`;

describe('a pool under load', () => {
  const random = randomOf(SEED);
  let drill: Drill;
  beforeEach(async () => {
    drill = await startDrill();
  });
  afterEach(() => drill.close());

  it('D04: a worker is killed in mid-batch (SIGKILL)', async (context) => {
    const [victim] = await Promise.all([drill.worker(), drill.worker()]);
    const producer = await drill.producer();
    await drill.known(producer);
    const load = drill.load(producer, 60, LOOPS);
    const jobs = Array.from({ length: 20 }, () => drill.sendJob(producer, producer, LOOPS));
    await drill.steady();
    await pause(500 * random());
    await drill.working(victim);
    victim.kill('SIGKILL');
    const killedMs = performance.now();
    await drill.steady();
    load.stop();
    await Promise.all(jobs);
    const { sent, answered, double, recoveryMs } = report(context, await drill.outcomes(), killedMs);
    expect([answered, double]).toEqual([sent, 0]);
    expect(recoveryMs).toBeLessThan(RECOVERED_MS);
    await until('nothing is left', async () => (await drill.queue.getJobCountByTypes('active', 'waiting')) === 0);
  });

  it('D04: the only worker is killed in mid-batch, another comes after 5 s', async (context) => {
    const victim = await drill.worker();
    const producer = await drill.producer();
    await drill.known(producer);
    const load = drill.load(producer, 30, LOOPS);
    await drill.steady();
    await drill.working(victim);
    victim.kill('SIGKILL');
    const killedMs = performance.now();
    await pause(5000);
    load.stop();
    await drill.worker();
    const { sent, answered, double } = report(context, await drill.outcomes(), killedMs);
    expect([answered, double]).toEqual([sent, 0]);
  });

  it(`D09: a worker stands still for ${WHOLE ? 60 : 15} s and goes on (SIGSTOP, SIGCONT)`, async (context) => {
    const [victim] = await Promise.all([drill.worker(), drill.worker()]);
    const producer = await drill.producer();
    await drill.known(producer);
    const load = drill.load(producer, 60, LOOPS);
    await drill.steady();
    await drill.working(victim);
    victim.kill('SIGSTOP');
    const stoppedMs = performance.now();
    await pause(WHOLE ? 60_000 : 15_000);
    victim.kill('SIGCONT');
    await drill.steady();
    load.stop();
    const outcomes = await drill.outcomes();
    const { sent, answered, double } = report(context, outcomes, stoppedMs);
    expect([answered, double]).toEqual([sent, 0]);
    await until('nothing is left', async () => (await drill.queue.getJobCountByTypes('active', 'waiting')) === 0);
    victim.kill('SIGTERM');
    expect(await victim.exited).toBe(0);
  });

  it('a worker runs out of memory', async (context) => {
    const program = `data:text/javascript,${encodeURIComponent(OUT_OF_MEMORY)}`;
    const env = { NODE_OPTIONS: `--max-old-space-size=200 --import=${program}` };
    const [victim] = await Promise.all([drill.worker({ env }), drill.worker()]);
    const producer = await drill.producer();
    await drill.known(producer);
    const load = drill.load(producer, 60, LOOPS);
    await drill.steady();
    await drill.working(victim);
    const fullMs = performance.now();
    victim.kill('SIGUSR2');
    expect(await victim.exited).not.toBe(0);
    expect(victim.stderr()).toContain('heap out of memory');
    await drill.steady();
    load.stop();
    const { sent, answered, double } = report(context, await drill.outcomes(), fullMs);
    expect([answered, double]).toEqual([sent, 0]);
  });

  it('D21: every run of a worker fails, it leaves with 1', async (context) => {
    const env = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(BROKEN)}` };
    const [victim] = await Promise.all([drill.worker({ env, args: ['--max-failures-in-row=20'] }), drill.worker()]);
    const producer = await drill.producer();
    await drill.known(producer);
    // Jobs are tried again where it works; requests would be answered with 500.
    const jobs = setInterval(() => void drill.sendJob(producer, producer, LOOPS), 1000 / 60);
    await drill.working(victim);
    const brokenMs = performance.now();
    victim.kill('SIGUSR2');
    expect(await victim.exited).toBe(1);
    expect(victim.stderr()).toContain('every request fails here, the worker leaves');
    await pause(2000);
    clearInterval(jobs);
    const { sent, answered, double } = report(context, await drill.outcomes(), brokenMs);
    expect([answered, double]).toEqual([sent, 0]);
  });

  it('a run hangs', async (context) => {
    await Promise.all([drill.worker(), drill.worker()]);
    const producer = await drill.producer({ args: ['--request-timeout-ms=5000'] });
    await drill.known(producer);
    const load = drill.load(producer, 30, LOOPS);
    await drill.steady();
    const hangingMs = performance.now();
    const hanging = await drill.send(producer, 1e9);
    expect(hanging).toMatchObject({ status: 504 });
    await drill.steady();
    load.stop();
    const outcomes = await drill.outcomes();
    const { lost, double } = report(context, outcomes, hangingMs);
    expect([lost, double]).toEqual([0, 0]);
    // Those that wait behind it in its worker may miss their deadline; the run ends with the last that waits for it.
    const late = outcomes.filter((outcome) => !isGood(outcome));
    expect(new Set(late.map(({ status }) => status))).toEqual(new Set([504]));
  });

  it('D07: a run takes longer than the lock of its job', async (context) => {
    await Promise.all([drill.worker(), drill.worker()]);
    const producer = await drill.producer();
    await drill.known(producer);
    const startedMs = performance.now();
    const long = drill.sendJob(producer, producer, 1200 * LOOPS);
    await until('it runs', async () => (await drill.queue.getActiveCount()) === 1);
    while ((await drill.queue.getActiveCount()) > 0) {
      const askedMs = performance.now();
      await (await fetch(producer.metricsUrl)).arrayBuffer();
      expect((await fetch(`${producer.url}/v2/health/ready`)).status).toBe(200);
      expect(performance.now() - askedMs).toBeLessThan(2000);
      await pause(200);
    }
    await long;
    const { sent, answered, double } = report(context, await drill.outcomes(), startedMs);
    expect([answered, double]).toEqual([sent, 0]);
    expect(performance.now() - startedMs).toBeGreaterThan(10_000);
    const page = (await (await fetch(`${producer.url}/jobs`)).json()) as { jobs: { attempts: { made: number } }[] };
    expect(page.jobs.map(({ attempts }) => attempts.made)).toEqual([1]);
  });

  it('D13: workers are replaced one by one, at any instant (SIGTERM)', async (context) => {
    const producer = await drill.producer();
    let oldest = await drill.worker();
    await drill.known(producer);
    const load = drill.load(producer, 60, LOOPS);
    await drill.steady();
    const startedMs = performance.now();
    for (let i = 0; i < (WHOLE ? 10 : 3); i += 1) {
      const next = await drill.worker();
      await pause(300 * random());
      oldest.kill('SIGTERM');
      const { pid } = oldest;
      expect(await oldest.exited).toBe(0);
      const active = await drill.queue.getActive();
      expect(active.filter((job) => job.processedBy?.endsWith(`:${pid}`))).toEqual([]);
      oldest = next;
    }
    load.stop();
    const { sent, answered, double } = report(context, await drill.outcomes(), startedMs);
    expect([answered, double]).toEqual([sent, 0]);
  });

  it('D13: a worker with 1000 waiting requests leaves (SIGTERM)', async (context) => {
    const leaving = await drill.worker();
    const producer = await drill.producer();
    for (let i = 0; i < 1000; i += 1) void drill.send(producer, LOOPS);
    await drill.working(leaving);
    leaving.kill('SIGTERM');
    const leftMs = performance.now();
    expect(await leaving.exited).toBe(0);
    expect(await drill.queue.getActiveCount()).toBe(0);
    await drill.worker();
    const { sent, answered, double } = report(context, await drill.outcomes(), leftMs);
    expect([sent, answered, double]).toEqual([1000, 1000, 0]);
  });

  it('D13: a worker leaves while Redis takes no answers yet (SIGTERM)', async (context) => {
    const [leaving] = await Promise.all([drill.worker(), drill.worker()]);
    const producer = await drill.producer();
    await drill.known(producer);
    const load = drill.load(producer, 60, LOOPS);
    await drill.steady();
    await drill.working(leaving);
    process.kill(drill.redis.pid, 'SIGSTOP');
    leaving.kill('SIGTERM');
    await pause(1500); // shorter than Redis may be silent
    process.kill(drill.redis.pid, 'SIGCONT');
    const backMs = performance.now();
    expect(await leaving.exited).toBe(0);
    await drill.steady();
    load.stop();
    const { sent, answered, double } = report(context, await drill.outcomes(), backMs);
    expect([answered, double]).toEqual([sent, 0]);
  });

  it('nothing can be logged any more (the disk is full)', async (context) => {
    const full = { command: ['sh', '-c', 'exec "$0" "$@" 2>/dev/full', process.execPath, 'dist/cli/main.js'] };
    await Promise.all([drill.worker(full), drill.worker(full)]);
    const producer = await drill.producer({ ...full, args: ['--log-verbose=1'] });
    await drill.known(producer);
    const load = drill.load(producer, 60, LOOPS);
    await drill.steady();
    const fullMs = performance.now();
    // Much to log: every connection breaks.
    await drill.redis.client().call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    await drill.steady();
    load.stop();
    const { sent, answered, double } = report(context, await drill.outcomes(), fullMs);
    expect([answered, double]).toEqual([sent, 0]);
  });

  it('D22: the producer’s date is ten minutes off', async (context) => {
    await drill.worker();
    const startedMs = performance.now();
    for (const offsetMs of [600_000, -600_000]) {
      const shift = encodeURIComponent(`const now = Date.now; Date.now = () => now() + (${offsetMs});`);
      const producer = await drill.producer({ env: { NODE_OPTIONS: `--import=data:text/javascript,${shift}` } });
      await drill.known(producer);
      const jobs = Array.from({ length: 10 }, () => drill.sendJob(producer, producer, LOOPS));
      await Promise.all([...jobs, ...Array.from({ length: 10 }, () => drill.send(producer, LOOPS))]);
    }
    const { sent, answered, double } = report(context, await drill.outcomes(), startedMs);
    expect([answered, double]).toEqual([sent, 0]);
  });

  it('D22: a worker’s date is ten minutes off', async (context) => {
    const startedMs = performance.now();
    const producer = await drill.producer();
    for (const offsetMs of [600_000, -600_000]) {
      const shift = encodeURIComponent(`const now = Date.now; Date.now = () => now() + (${offsetMs});`);
      const worker = await drill.worker({ env: { NODE_OPTIONS: `--import=data:text/javascript,${shift}` } });
      await drill.known(producer);
      const jobs = Array.from({ length: 10 }, () => drill.sendJob(producer, producer, LOOPS));
      await Promise.all([...jobs, ...Array.from({ length: 10 }, () => drill.send(producer, LOOPS))]);
      worker.kill('SIGTERM');
      expect(await worker.exited).toBe(0);
    }
    const { sent, answered, double } = report(context, await drill.outcomes(), startedMs);
    expect([answered, double]).toEqual([sent, 0]);
  });
});

describe('a pool with two producers', () => {
  it('a producer is killed (SIGKILL): its jobs are done and can be fetched at another', async (context) => {
    const drill = await startDrill();
    try {
      await drill.worker();
      const [victim, other] = await Promise.all([drill.producer(), drill.producer()]);
      await drill.known(other);
      const load = drill.load(other, 30, LOOPS);
      await drill.steady();
      // Taken by the one that dies, asked for at the other.
      const jobs = Array.from({ length: 60 }, () => drill.sendJob(victim, other, 3 * LOOPS));
      await until('all jobs are taken', () => drill.jobsTaken === 60);
      victim.kill('SIGKILL');
      const killedMs = performance.now();
      await Promise.all(jobs);
      await drill.steady();
      load.stop();
      const { sent, answered, double } = report(context, await drill.outcomes(), killedMs);
      expect([answered, double]).toEqual([sent, 0]);
    } finally {
      await drill.close();
    }
  });
});
