import type { Redis } from 'ioredis';
import type { InferError } from '../errors.ts';
import { RedisScript } from '../runtime/redis-script.ts';
import {
  JOBS_EVENTS_KEY,
  JOBS_EXPIRY_KEY,
  JOBS_KEY,
  JOBS_OPEN_KEY,
  jobRecordKey,
  jobResultKey,
} from '../wire/names.ts';
import { isJobState, isOver, type JobState } from './job.ts';

/*
 * The steps of a job's life in Redis, each atomic, and each harmless when it is sent twice. All keys live in one slot.
 * A script touches a record only while it is there: what has expired does not come back.
 */

/** Entries of the stream of events; whoever falls behind by more looks at the records themselves. */
const EVENTS_LENGTH = 10_000;
const EVENTS_TTL_MS = 60_000;

const SHARED = `
local function tell(id, state)
  redis.call('XADD', '${JOBS_EVENTS_KEY}', 'MAXLEN', '~', ${EVENTS_LENGTH}, '*', 'id', id, 'state', state)
  redis.call('PEXPIRE', '${JOBS_EVENTS_KEY}', ${EVENTS_TTL_MS})
end
local function live(key, ms)
  if redis.call('PTTL', key) < ms then redis.call('PEXPIRE', key, ms) end
end
local function isover(state)
  return state ~= 'queued' and state ~= 'running'
end
`;

/**
 * KEYS record, list, expiry, open, idempotency key (or the record again).
 * ARGV id, fingerprint ('' for no key), most open jobs, now, deadline, ms to live, then the fields of the record.
 */
const SUBMIT = new RedisScript(`${SHARED}
local id, fingerprint, now, ttl = ARGV[1], ARGV[2], tonumber(ARGV[4]), tonumber(ARGV[6])
if fingerprint ~= '' then
  local known = redis.call('HMGET', KEYS[5], 'id', 'fingerprint')
  if known[1] and known[1] ~= id then return {'known', known[1], known[2]} end
end
if redis.call('EXISTS', KEYS[1]) == 1 then return {'created'} end
local gone = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now, 'LIMIT', 0, 1000)
if #gone > 0 then
  redis.call('ZREM', KEYS[2], unpack(gone))
  redis.call('ZREM', KEYS[3], unpack(gone))
  redis.call('ZREM', KEYS[4], unpack(gone))
end
local open = redis.call('ZCOUNT', KEYS[4], now, '+inf')
if open >= tonumber(ARGV[3]) then return {'full', open} end
redis.call('HSET', KEYS[1], 'state', 'queued', 'runs', 0, unpack(ARGV, 7))
redis.call('PEXPIRE', KEYS[1], ttl)
redis.call('ZADD', KEYS[2], 0, id)
redis.call('ZADD', KEYS[3], now + ttl, id)
redis.call('ZADD', KEYS[4], ARGV[5], id)
for k = 2, 4 do live(KEYS[k], ttl) end
if fingerprint ~= '' then
  redis.call('HSET', KEYS[1], 'key', KEYS[5])
  redis.call('HSET', KEYS[5], 'id', id, 'fingerprint', fingerprint)
  redis.call('PEXPIRE', KEYS[5], ttl)
end
tell(id, 'queued')
return {'created'}`);

/** KEYS record. ARGV id, now. The number of this run, or the state that it is in for good, or 'gone'. */
const START = new RedisScript(`${SHARED}
local state = redis.call('HGET', KEYS[1], 'state')
if not state then return 'gone' end
if isover(state) then return state end
redis.call('HSET', KEYS[1], 'state', 'running', 'started', ARGV[2])
tell(ARGV[1], 'running')
return redis.call('HINCRBY', KEYS[1], 'runs', 1)`);

/** KEYS record. ARGV id, run, code, message. Only the run that is the latest may give the job back. */
const AGAIN = new RedisScript(`${SHARED}
local was = redis.call('HMGET', KEYS[1], 'state', 'runs')
if was[1] ~= 'running' or was[2] ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], 'state', 'queued')
if ARGV[3] ~= '' then
  redis.call('HSET', KEYS[1], 'code', ARGV[3], 'message', ARGV[4])
else
  redis.call('HINCRBY', KEYS[1], 'runs', -1)
end
tell(ARGV[1], 'queued')
return 1`);

/**
 * KEYS record, result, list, expiry, open. ARGV id, state, now, code, message, frame ('' for none).
 * 1 when this was the first answer.
 */
const FINISH = new RedisScript(`${SHARED}
local id, now = ARGV[1], tonumber(ARGV[3])
local was = redis.call('HMGET', KEYS[1], 'state', 'keep', 'key')
if not was[1] or isover(was[1]) then return 0 end
local keep = tonumber(was[2])
redis.call('HSET', KEYS[1], 'state', ARGV[2], 'finished', ARGV[3])
if ARGV[4] ~= '' then
  redis.call('HSET', KEYS[1], 'code', ARGV[4], 'message', ARGV[5])
else
  redis.call('HDEL', KEYS[1], 'code', 'message')
end
if ARGV[6] ~= '' then redis.call('SET', KEYS[2], ARGV[6], 'PX', keep) end
redis.call('PEXPIRE', KEYS[1], keep)
if was[3] then redis.call('PEXPIRE', was[3], keep) end
redis.call('ZADD', KEYS[4], now + keep, id)
live(KEYS[3], keep)
live(KEYS[4], keep)
redis.call('ZREM', KEYS[5], id)
tell(id, ARGV[2])
return 1`);

/** KEYS record, list, expiry, open. ARGV id. For a job that did not get into its queue. */
const WITHDRAW = new RedisScript(`${SHARED}
local key = redis.call('HGET', KEYS[1], 'key')
if key and redis.call('HGET', key, 'id') == ARGV[1] then redis.call('DEL', key) end
redis.call('DEL', KEYS[1])
for k = 2, 4 do redis.call('ZREM', KEYS[k], ARGV[1]) end
return 1`);

export interface SubmittedJob {
  readonly id: string;
  readonly nowMs: number;
  readonly deadlineMs: number;
  /** The record goes then, unless it is over before. */
  readonly ttlMs: number;
  /** The Redis key of the idempotency key, and what its body must equal. */
  readonly idempotency: { readonly key: string; readonly fingerprint: string } | undefined;
  readonly fields: Readonly<Record<string, string | number>>;
}

export type Submitted =
  | { readonly kind: 'created' }
  | { readonly kind: 'known'; readonly id: string; readonly fingerprint: string }
  | { readonly kind: 'full'; readonly open: number };

export async function submitJob(redis: Redis, job: SubmittedJob, maxOpen: number): Promise<Submitted> {
  const { id, nowMs, deadlineMs, ttlMs, idempotency, fields } = job;
  const record = jobRecordKey(id);
  const keys = [record, JOBS_KEY, JOBS_EXPIRY_KEY, JOBS_OPEN_KEY, idempotency?.key ?? record];
  const values = [id, idempotency?.fingerprint ?? '', maxOpen, ms(nowMs), ms(deadlineMs), ms(ttlMs)];
  const answer = await SUBMIT.run(redis, keys, [...values, ...Object.entries(fields).flat()]);
  const [kind, first, second] = Array.isArray(answer) ? (answer as unknown[]) : [];
  if (kind === 'known') return { kind, id: String(first), fingerprint: String(second) };
  return kind === 'full' ? { kind, open: Number(first) } : { kind: 'created' };
}

/** What became of the wish to run a job: the number of the run, or why it must not run. */
export type Started = { readonly run: number } | { readonly over: JobState | 'gone' };

export async function startJob(redis: Redis, id: string, nowMs: number): Promise<Started> {
  const answer = await START.run(redis, [jobRecordKey(id)], [id, ms(nowMs)]);
  if (typeof answer === 'number') return { run: answer };
  return { over: isJobState(answer) && isOver(answer) ? answer : 'gone' };
}

/** @param error why the run failed; undefined when nothing was run, and then it does not count */
export async function requeueJob(redis: Redis, id: string, run: number, error?: InferError): Promise<void> {
  await AGAIN.run(redis, [jobRecordKey(id)], [id, run, error?.code ?? '', error?.message ?? '']);
}

/** How a job ended: with the frame of its answer, or with an error. */
export interface JobEnd {
  readonly state: JobState;
  readonly error?: InferError;
  readonly frame?: Buffer;
}

/** Whether this was the first answer, which is the only one that counts. */
export async function finishJob(redis: Redis, id: string, nowMs: number, end: JobEnd): Promise<boolean> {
  const keys = [jobRecordKey(id), jobResultKey(id), JOBS_KEY, JOBS_EXPIRY_KEY, JOBS_OPEN_KEY];
  const { state, error, frame = '' } = end;
  const values = [id, state, ms(nowMs), error?.code ?? '', error?.message ?? '', frame];
  return (await FINISH.run(redis, keys, values)) === 1;
}

export async function withdrawJob(redis: Redis, id: string): Promise<void> {
  await WITHDRAW.run(redis, [jobRecordKey(id), JOBS_KEY, JOBS_EXPIRY_KEY, JOBS_OPEN_KEY], [id]);
}

/** Times are numbers with fractions here, and whole ms in Redis. */
function ms(value: number): number {
  return Math.round(value);
}
