import type { JobPool } from '../../../producer/service/jobs/job-queue.ts';
import { RedisJobStore } from '../../../producer/service/jobs/redis-job-store.ts';
import { DEFAULT_JOB_SETTINGS, type JobSettings } from '../../../producer/service/jobs/job-settings.ts';
import type { JobStore, NewJob } from '../../../producer/service/jobs/job-store.ts';
import { Jobs } from '../../../producer/service/jobs/jobs.ts';
import { MemoryJobStore } from '../../../producer/service/jobs/memory-job-store.ts';
import { withDeadline } from '../../../producer/service/with-deadline.ts';
import type { InferRequest } from '../../../shared/infer/request.ts';
import { systemClock } from '../../../shared/runtime/clock.ts';
import { silentLogger } from '../../../shared/runtime/logger.ts';
import type { ModelCatalog } from '../../../shared/infer/ports.ts';
import { FakeEngine, requestOf } from '../../support/worker.ts';
import { knows, type Pool, startPool } from '../queue/pool.ts';

export const MODELS = [{ name: 'echo' }, { name: 'other' }];

/** Jobs on one of the stores, and the engine that runs them. */
export interface JobsBench {
  readonly jobs: Jobs;
  readonly engine: FakeEngine;
  close(): Promise<void>;
}

export type ShareOf = (tenant: string, maxOpen: number) => number;

export type BytesOf = (tenant: string) => number;

export async function memoryJobs(
  maxOpen = 1000,
  maxBytes = 1 << 20,
  shareOf?: ShareOf,
  bytesOf?: BytesOf,
): Promise<JobsBench> {
  const engine = new FakeEngine(MODELS);
  const infer = withDeadline(systemClock, engine.infer);
  const store = new MemoryJobStore({ infer, clock: systemClock, maxOpen, maxBytes, shareOf, bytesOf });
  const jobs = jobsOn(store, engine.catalog);
  return Promise.resolve({ jobs, engine, close: () => jobs.close() });
}

export async function pooledJobs(maxOpen = 1000, shareOf?: ShareOf, bytesOf?: BytesOf): Promise<JobsBench> {
  const pool = await startPool();
  const { engine } = await pool.worker(MODELS);
  const jobs = await producerJobs(pool, { maxOpen, shareOf, bytesOf });
  return {
    jobs,
    engine,
    async close() {
      engine.release();
      await jobs.close();
      await pool.close();
    },
  };
}

export interface ProducerJobsOptions {
  readonly maxOpen?: number;
  readonly shareOf?: ShareOf | undefined;
  readonly bytesOf?: BytesOf | undefined;
  /** What stands between the store and Redis, for what goes wrong there. */
  readonly through?: (pool: JobPool) => JobPool;
}

/** The jobs of a new producer of a pool. Closed by whoever asked, before the pool. */
export async function producerJobs(
  pool: Pool,
  { maxOpen = 1000, shareOf, bytesOf, through = (jobPool) => jobPool }: ProducerJobsOptions = {},
): Promise<Jobs> {
  const dispatcher = await pool.producer();
  await knows(dispatcher, 'echo');
  const redisUrl = pool.redis.url;
  const store = new RedisJobStore({
    pool: through(dispatcher.pool),
    redisUrl,
    maxOpen,
    shareOf,
    bytesOf,
    logger: silentLogger,
  });
  await store.start();
  return jobsOn(store, dispatcher.catalog);
}

function jobsOn(store: JobStore, catalog: ModelCatalog): Jobs {
  return new Jobs({ store, catalog, traffic: { assign: () => '' }, clock: systemClock });
}

export interface JobWish extends Partial<JobSettings> {
  readonly model?: string;
  readonly text?: string;
  readonly key?: string;
  readonly tenant?: string;
  readonly request?: Partial<InferRequest>;
}

/** A job that has its text as its one input. */
export function jobOf({ model = 'echo', text = 'text', key, tenant = '', request, ...settings }: JobWish = {}): NewJob {
  return {
    request: requestOf(model, Buffer.from(text), request),
    settings: { ...DEFAULT_JOB_SETTINGS, ...settings },
    callId: 'call',
    level: 0,
    answer: '{}',
    tenant,
    idempotency: key === undefined ? undefined : { key, fingerprint: text },
  };
}

export async function submitted(jobs: Jobs, wish: JobWish = {}): Promise<string> {
  return (await jobs.submit(jobOf(wish))).record.id;
}

export async function textOf(jobs: Jobs, id: string): Promise<string> {
  return Buffer.from((await jobs.result(id)).outputs[0]!.data).toString();
}
