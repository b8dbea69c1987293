import type { Redis } from 'ioredis';
import { QUEUE_PREFIX } from '../../shared/wire/names.ts';
import { isCount, isRecord } from '../../shared/wire/record.ts';
import { jobContent } from '../../shared/wire/signed-job.ts';

/** A queue that any worker with the model takes from. */
export interface ReadQueue {
  readonly model: string;
  /** Without the prefix. */
  readonly name: string;
  /** Its requests have a batch dimension. */
  readonly batched: boolean;
}

export interface Backlog {
  /**
   * That no worker has taken and somebody still waits for. Exact for up to 16 jobs a queue, beyond that by the mean of 16.
   */
  readonly waitingRows: number;
  readonly waitingJobs: number;
  /** That some worker has taken, or had when it was lost. */
  readonly activeJobs: number;
  /** Of the jobs that were looked into, those that nobody waits for any more. */
  readonly expired: readonly ExpiredJob[];
}

export interface ExpiredJob {
  /** Of the queue, with its prefix. */
  readonly queueKey: string;
  readonly id: string;
}

/** What a job holds that no worker has taken. */
export interface JobRows {
  /** Of the requests whose deadline has not passed. */
  readonly rows: number;
  /** When nobody waits for any of it any more, on Redis' clock in ms. */
  readonly overMs: number;
  /** A job of the Jobs API, whose record has to be ended with it. */
  readonly forJob: boolean;
}

const NOTHING: Backlog = { waitingRows: 0, waitingJobs: 0, activeJobs: 0, expired: [] };
/** So long after its deadline a request is answered in any case, by the producer itself, in ms. */
const EXPIRED_FOR_MS = 10_000;
/** Jobs that are looked into at either end of a queue. */
const SAMPLES = 8;
/** BullMQ keeps when a delayed job is due in the upper bits of its score. */
const DELAYED_SCORE = 0x1000;
const COMMANDS = 7;

/**
 * What waits in the queues of the models, by model. Two round trips, whose work does not grow with the queues.
 * @param nowMs by this machine's date, which BullMQ goes by, and by Redis' clock, which deadlines go by
 */
export async function readBacklogs(
  redis: Redis,
  queues: readonly ReadQueue[],
  nowMs: { readonly here: number; readonly redis: number },
): Promise<Map<string, Backlog>> {
  const counts = await readCounts(redis, queues, nowMs.here);
  const datas = await readDatas(redis, counts);
  const backlogs = new Map<string, Backlog>();
  for (const { queue, ids, waitingJobs, activeJobs } of counts) {
    const known = backlogs.get(queue.model) ?? NOTHING;
    const expired = [...known.expired];
    let sampled = 0;
    let rows = 0;
    for (const id of ids) {
      const data = datas.get(jobKey(queue, id));
      if (data === undefined) continue;
      const job = rowsOfJob(data, queue.batched, nowMs.redis);
      sampled += 1;
      rows += job.rows;
      if (!job.forJob && job.overMs + EXPIRED_FOR_MS < nowMs.redis) expired.push({ queueKey: keyOf(queue), id });
    }
    backlogs.set(queue.model, {
      waitingRows: known.waitingRows + rowsOfAll(waitingJobs, sampled, rows),
      waitingJobs: known.waitingJobs + waitingJobs,
      activeJobs: known.activeJobs + activeJobs,
      expired,
    });
  }
  return backlogs;
}

/** From what was looked into. Behind jobs that are all over, one that is not may wait unseen. */
function rowsOfAll(waitingJobs: number, sampled: number, rows: number): number {
  if (sampled === 0) return waitingJobs;
  if (rows === 0) return waitingJobs > sampled ? 1 : 0;
  return Math.max(1, Math.round((waitingJobs * rows) / sampled));
}

interface Counts {
  readonly queue: ReadQueue;
  readonly ids: readonly string[];
  readonly waitingJobs: number;
  readonly activeJobs: number;
}

async function readCounts(redis: Redis, queues: readonly ReadQueue[], nowMs: number): Promise<Counts[]> {
  if (queues.length === 0) return [];
  const pipeline = redis.pipeline();
  for (const queue of queues) {
    const key = keyOf(queue);
    pipeline.lrange(`${key}:wait`, 0, SAMPLES - 1);
    pipeline.lrange(`${key}:wait`, -SAMPLES, -1);
    pipeline.zrange(`${key}:prioritized`, 0, String(SAMPLES - 1));
    pipeline.llen(`${key}:wait`);
    pipeline.zcard(`${key}:prioritized`);
    pipeline.llen(`${key}:active`);
    // Only workers make a delayed job a waiting one.
    pipeline.zcount(`${key}:delayed`, '-inf', String((nowMs + 1) * DELAYED_SCORE));
  }
  const results = valuesOf(await pipeline.exec());
  return queues.map((queue, index) => {
    const [newest, oldest, urgent, waiting, prioritized, active, due] = results.slice(index * COMMANDS);
    const ids = new Set([...texts(newest), ...texts(oldest), ...texts(urgent)]);
    return {
      queue,
      ids: [...ids],
      waitingJobs: count(waiting) + count(prioritized) + count(due),
      activeJobs: count(active),
    };
  });
}

/** By key of the job. */
async function readDatas(redis: Redis, counts: readonly Counts[]): Promise<Map<string, string>> {
  const keys = counts.flatMap(({ queue, ids }) => ids.map((id) => jobKey(queue, id)));
  if (keys.length === 0) return new Map();
  const pipeline = redis.pipeline();
  for (const key of keys) pipeline.hget(key, 'data');
  const datas = valuesOf(await pipeline.exec());
  return new Map(
    keys.flatMap((key, index) => {
      const data = datas[index];
      return typeof data === 'string' ? [[key, data] as const] : []; // taken and gone meanwhile
    }),
  );
}

/** What is in a job's data; anything that is none of ours counts as a row that somebody waits for. */
export function rowsOfJob(data: string, batched: boolean, nowMs: number): JobRows {
  let wire: unknown;
  try {
    wire = jobContent(JSON.parse(data));
  } catch {
    return FOREIGN;
  }
  if (!isRecord(wire) || !Array.isArray(wire.items) || wire.items.length === 0) return FOREIGN;
  let rows = 0;
  let overMs = 0;
  for (const item of wire.items as unknown[]) {
    const deadlineMs = isRecord(item) && typeof item.deadlineMs === 'number' ? item.deadlineMs : Infinity;
    overMs = Math.max(overMs, deadlineMs);
    if (deadlineMs > nowMs) rows += batched ? rowsOfItem(item) : 1;
  }
  return { rows, overMs, forJob: wire.job !== undefined };
}

const FOREIGN: JobRows = { rows: 1, overMs: Infinity, forJob: false };

function rowsOfItem(item: unknown): number {
  const inputs = isRecord(item) && Array.isArray(item.inputs) ? (item.inputs as unknown[]) : [];
  const [first] = inputs;
  const shape = isRecord(first) && Array.isArray(first.shape) ? (first.shape as unknown[]) : [];
  return isCount(shape[0]) ? Math.max(1, shape[0]) : 1;
}

function keyOf({ name }: ReadQueue): string {
  return `${QUEUE_PREFIX}:${name}`;
}

function jobKey(queue: ReadQueue, id: string): string {
  return `${keyOf(queue)}:${id}`;
}

function valuesOf(results: [error: Error | null, result: unknown][] | null): unknown[] {
  return (results ?? []).map(([error, result]) => {
    if (error) throw error;
    return result;
  });
}

function texts(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((text) => typeof text === 'string') : [];
}

function count(value: unknown): number {
  return isCount(value) ? value : 0;
}
