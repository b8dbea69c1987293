import { randomBytes } from 'node:crypto';
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
  jobsBytesKeyOf,
  jobsOpenKeyOf,
  WEBHOOKS_KEY,
} from '../wire/names.ts';
import type { QueueKeys } from '../wire/queue-keys.ts';
import { isJobState, isOver, type JobState, type WebhookProgress } from './job.ts';
import { signedEnd } from './signed-record.ts';

/*
 * The steps of a job's life in Redis, each atomic, and each harmless when it is sent twice. All keys live in one slot.
 * A script touches a record only while it is there: what has expired does not come back.
 *
 * What has begun must come to its end in a full Redis too, or nothing would ever be freed. A full Redis refuses a script at
 * its first command that takes memory, unless something was removed before; so the steps behind the first one remove
 * something first. Only an answer that is larger than the tensors that it frees can be refused.
 */

/** Entries of the stream of events; whoever falls behind by more looks at the records themselves. */
const EVENTS_LENGTH = 10_000;
const EVENTS_TTL_MS = 60_000;
/** Webhooks wait so long for a producer that sends them. */
const WEBHOOKS_TTL_MS = 7 * 86_400_000;

/** So long after its deadline a job has been ended, unless no producer was there to do it. */
const ENDED_FOR_SURE_MS = 60_000;

const SHARED = `
local function tell(id, state)
  redis.call('XADD', '${JOBS_EVENTS_KEY}', 'MAXLEN', '~', ${EVENTS_LENGTH}, '*', 'id', id, 'state', state)
  redis.call('PEXPIRE', '${JOBS_EVENTS_KEY}', ${EVENTS_TTL_MS})
end
local function live(key, ms)
  if redis.call('PTTL', key) < ms then redis.call('PEXPIRE', key, ms) end
end
local function tensors(payload)
  return string.gmatch(payload or '', '%S+')
end
local function free(id, open, bytes, of)
  if not open or redis.call('ZREM', open, id) == 0 then return end
  if of and redis.call('DECRBY', of, bytes) <= 0 then redis.call('UNLINK', of) end
end
local function isover(state)
  return state ~= 'queued' and state ~= 'running'
end
`;

/**
 * KEYS record, list, expiry, open, idempotency key (or the record again), open ones of its tenant and the bytes of those (or
 * the record again). ARGV id, fingerprint ('' for no key), most open jobs, now, deadline, ms to live, most of the tenant (''
 * for no tenant), most bytes of those ('' for any number), bytes of this one, then the fields of the record.
 */
const SUBMIT = new RedisScript(`${SHARED}
local id, fingerprint, now, ttl = ARGV[1], ARGV[2], tonumber(ARGV[4]), tonumber(ARGV[6])
if fingerprint ~= '' then
  local known = redis.call('HMGET', KEYS[5], 'id', 'fingerprint')
  if known[1] and known[1] ~= id then return {'known', known[1], known[2]} end
end
if redis.call('EXISTS', KEYS[1]) == 1 then return {'created'} end
local open = redis.call('ZCOUNT', KEYS[4], now, '+inf')
if open >= tonumber(ARGV[3]) then return {'full', open} end
if ARGV[7] ~= '' then
  local own = redis.call('ZCOUNT', KEYS[6], now, '+inf')
  if own >= tonumber(ARGV[7]) then return {'share', own} end
  if ARGV[8] ~= '' then
    local used = redis.call('EXISTS', KEYS[6]) == 1 and tonumber(redis.call('GET', KEYS[7]) or 0) or 0
    if used + tonumber(ARGV[9]) > tonumber(ARGV[8]) then return {'bytes', used} end
  end
end
redis.call('HSET', KEYS[1], 'state', 'queued', 'runs', 0, unpack(ARGV, 10))
redis.call('PEXPIRE', KEYS[1], ttl)
local gone = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now, 'LIMIT', 0, 1000)
if #gone > 0 then
  redis.call('ZREM', KEYS[2], unpack(gone))
  redis.call('ZREM', KEYS[3], unpack(gone))
  redis.call('ZREM', KEYS[4], unpack(gone))
end
redis.call('ZADD', KEYS[2], 0, id)
redis.call('ZADD', KEYS[3], now + ttl, id)
redis.call('ZADD', KEYS[4], ARGV[5], id)
for k = 2, 4 do live(KEYS[k], ttl) end
if ARGV[7] ~= '' then
  redis.call('ZREMRANGEBYSCORE', KEYS[6], '-inf', '(' .. now - ${ENDED_FOR_SURE_MS})
  if redis.call('EXISTS', KEYS[6]) == 0 then redis.call('UNLINK', KEYS[7]) end
  redis.call('ZADD', KEYS[6], ARGV[5], id)
  live(KEYS[6], ttl)
  redis.call('INCRBY', KEYS[7], ARGV[9])
  live(KEYS[7], ttl)
  redis.call('HSET', KEYS[1], 'open', KEYS[6], 'bytes', ARGV[9], 'bytes-of', KEYS[7])
end
if fingerprint ~= '' then
  redis.call('HSET', KEYS[1], 'key', KEYS[5])
  redis.call('HSET', KEYS[5], 'id', id, 'fingerprint', fingerprint)
  redis.call('PEXPIRE', KEYS[5], ttl)
end
tell(id, 'queued')
return {'created'}`);

/** KEYS record. ARGV id, now, token of this run. 'run', or the state that it is in for good, or 'gone'. */
const START = new RedisScript(`${SHARED}
local was = redis.call('HMGET', KEYS[1], 'state', 'run')
if not was[1] then return 'gone' end
if isover(was[1]) then return was[1] end
if was[2] == ARGV[3] then return 'run' end
redis.call('HDEL', KEYS[1], 'run')
redis.call('HSET', KEYS[1], 'state', 'running', 'started', ARGV[2], 'run', ARGV[3])
redis.call('HINCRBY', KEYS[1], 'runs', 1)
tell(ARGV[1], 'running')
return 'run'`);

/** KEYS record. ARGV id, token of the run, code, message. Only the run that is the latest may give the job back. */
const AGAIN = new RedisScript(`${SHARED}
local was = redis.call('HMGET', KEYS[1], 'state', 'run')
if was[1] ~= 'running' or was[2] ~= ARGV[2] then return 0 end
redis.call('HDEL', KEYS[1], 'run')
redis.call('HSET', KEYS[1], 'state', 'queued')
if ARGV[3] ~= '' then
  redis.call('HSET', KEYS[1], 'code', ARGV[3], 'message', ARGV[4])
else
  redis.call('HINCRBY', KEYS[1], 'runs', -1)
end
tell(ARGV[1], 'queued')
return 1`);

/**
 * KEYS record, result, list, expiry, open, webhooks. ARGV id, state, now, code, message, frame ('' for none), token of the
 * end, and where ends are signed the fields of the signature. 1 when this was the first answer, also when it is sent again.
 * The tensors go with it, as whoever still takes the job drops it. A webhook is left for the producers in the same step,
 * with all that it will say, so that there is no end of a job without it, and it may outlive the record.
 */
const FINISH = new RedisScript(`${SHARED}
local id, now = ARGV[1], tonumber(ARGV[3])
local was = redis.call('HMGET', KEYS[1], 'state', 'keep', 'key', 'payload', 'open', 'end', 'bytes', 'bytes-of')
if not was[1] then return 0 end
if isover(was[1]) then return was[6] == ARGV[7] and 1 or 0 end
local keep = tonumber(was[2])
local frees = 0
for key in tensors(was[4]) do
  local bytes = redis.pcall('STRLEN', key)
  if type(bytes) == 'number' then frees = frees + bytes end
end
if string.len(ARGV[6]) <= frees then redis.call('HDEL', KEYS[1], 'run') end
redis.call('HSET', KEYS[1], 'state', ARGV[2], 'finished', ARGV[3], 'end', ARGV[7])
for key in tensors(was[4]) do redis.call('UNLINK', key) end
if ARGV[4] ~= '' then
  redis.call('HSET', KEYS[1], 'code', ARGV[4], 'message', ARGV[5])
else
  redis.call('HDEL', KEYS[1], 'code', 'message')
end
if ARGV[8] then redis.call('HSET', KEYS[1], unpack(ARGV, 8)) end
if ARGV[6] ~= '' then redis.call('SET', KEYS[2], ARGV[6], 'PX', keep) end
redis.call('PEXPIRE', KEYS[1], keep)
if was[3] then redis.call('PEXPIRE', was[3], keep) end
redis.call('ZADD', KEYS[4], now + keep, id)
live(KEYS[3], keep)
live(KEYS[4], keep)
redis.call('ZREM', KEYS[5], id)
free(id, was[5], was[7], was[8])
if redis.call('HEXISTS', KEYS[1], 'webhook') == 1 then
  redis.call('HSET', KEYS[6], id, cjson.encode(redis.call('HGETALL', KEYS[1])))
  redis.call('PEXPIRE', KEYS[6], ${WEBHOOKS_TTL_MS})
end
tell(id, ARGV[2])
return 1`);

/** KEYS record. ARGV state, attempts. A webhook that was delivered stays that. */
const NOTE_WEBHOOK = new RedisScript(`
local was = redis.call('HMGET', KEYS[1], 'webhook', 'webhook-state')
if not was[1] or was[2] == 'delivered' then return 0 end
redis.call('HSET', KEYS[1], 'webhook-state', ARGV[1], 'webhook-attempts', ARGV[2])
return 1`);

/**
 * KEYS record, list, expiry, open, BullMQ job. ARGV id. For a job that may not have got into its queue: 0 when it has after
 * all, whoever brought it there, and is left alone. One that got there without its tensors could not run.
 */
const WITHDRAW = new RedisScript(`${SHARED}
local was = redis.call('HMGET', KEYS[1], 'state', 'runs', 'key', 'payload', 'open', 'bytes', 'bytes-of')
if not was[1] then return 1 end
if was[1] ~= 'queued' or was[2] ~= '0' then return 0 end
local whole = redis.call('EXISTS', KEYS[5]) == 1
for key in tensors(was[4]) do whole = redis.call('EXISTS', key) == 1 and whole end
if whole then return 0 end
for key in tensors(was[4]) do redis.call('UNLINK', key) end
if was[3] and redis.call('HGET', was[3], 'id') == ARGV[1] then redis.call('DEL', was[3]) end
redis.call('DEL', KEYS[1])
for k = 2, 4 do redis.call('ZREM', KEYS[k], ARGV[1]) end
free(ARGV[1], was[5], was[6], was[7])
return 1`);

export interface SubmittedJob {
  readonly id: string;
  readonly nowMs: number;
  readonly deadlineMs: number;
  /** The record goes then, unless it is over before. */
  readonly ttlMs: number;
  /** The Redis key of the idempotency key, and what its body must equal. */
  readonly idempotency: { readonly key: string; readonly fingerprint: string } | undefined;
  /** Whose job it is, and how many that one may have open; undefined where requests need no key. */
  readonly tenant:
    | {
        readonly name: string;
        readonly maxOpen: number;
        /** Of the tensors of all of them; 0 for any number. */
        readonly maxBytes: number;
      }
    | undefined;
  /** Bytes of its tensors. */
  readonly bytes: number;
  readonly fields: Readonly<Record<string, string | number>>;
}

export type Submitted =
  | { readonly kind: 'created' }
  | { readonly kind: 'known'; readonly id: string; readonly fingerprint: string }
  | { readonly kind: 'full'; readonly open: number }
  /** The tenant has its share. */
  | { readonly kind: 'share'; readonly open: number }
  /** The jobs of the tenant have so many bytes already that it would be too many. */
  | { readonly kind: 'bytes'; readonly open: number };

export async function submitJob(redis: Redis, job: SubmittedJob, maxOpen: number): Promise<Submitted> {
  const { id, nowMs, deadlineMs, ttlMs, idempotency, tenant, bytes, fields } = job;
  const record = jobRecordKey(id);
  const openOfTenant = tenant ? jobsOpenKeyOf(tenant.name) : record;
  const bytesOfTenant = tenant ? jobsBytesKeyOf(tenant.name) : record;
  const ofTenant = [openOfTenant, bytesOfTenant];
  const keys = [record, JOBS_KEY, JOBS_EXPIRY_KEY, JOBS_OPEN_KEY, idempotency?.key ?? record, ...ofTenant];
  const times = [ms(nowMs), ms(deadlineMs), ms(ttlMs)];
  const values = [id, idempotency?.fingerprint ?? '', maxOpen, ...times, tenant?.maxOpen ?? ''];
  values.push(tenant?.maxBytes || '', bytes);
  const answer = await SUBMIT.run(redis, keys, [...values, ...Object.entries(fields).flat()]);
  const [kind, first, second] = Array.isArray(answer) ? (answer as unknown[]) : [];
  if (kind === 'known') return { kind, id: String(first), fingerprint: String(second) };
  return kind === 'full' || kind === 'share' || kind === 'bytes' ? { kind, open: Number(first) } : { kind: 'created' };
}

/** What became of the wish to run a job: the token of the run, or why it must not run. */
export type Started = { readonly run: string } | { readonly over: JobState | 'gone' };

/** @param run told apart from each other run of the job, and the same when the same start is sent again */
export async function startJob(redis: Redis, id: string, run: string, nowMs: number): Promise<Started> {
  const answer = await START.run(redis, [jobRecordKey(id)], [id, ms(nowMs), run]);
  if (answer === 'run') return { run };
  return { over: isJobState(answer) && isOver(answer) ? answer : 'gone' };
}

/** @param error why the run failed; undefined when nothing was run, and then it does not count */
export async function requeueJob(redis: Redis, id: string, run: string, error?: InferError): Promise<void> {
  await AGAIN.run(redis, [jobRecordKey(id)], [id, run, error?.code ?? '', error?.message ?? '']);
}

/** How a job ended: with the frame of its answer, or with an error. */
export interface JobEnd {
  readonly state: JobState;
  readonly error?: InferError;
  readonly frame?: Buffer;
}

/** Whether this was the first answer, which is the only one that counts. */
export async function finishJob(
  redis: Redis,
  id: string,
  nowMs: number,
  end: JobEnd,
  queueKeys?: QueueKeys,
): Promise<boolean> {
  const keys = [jobRecordKey(id), jobResultKey(id), JOBS_KEY, JOBS_EXPIRY_KEY, JOBS_OPEN_KEY, WEBHOOKS_KEY];
  const { state, error, frame = '' } = end;
  const values = [id, state, ms(nowMs), error?.code ?? '', error?.message ?? '', frame, createToken()];
  if (queueKeys) values.push(...Object.entries(signedEnd(queueKeys, id, end)).flat());
  return (await FINISH.run(redis, keys, values)) === 1;
}

export async function noteWebhook(redis: Redis, id: string, { state, attempts }: WebhookProgress): Promise<void> {
  await NOTE_WEBHOOK.run(redis, [jobRecordKey(id)], [state, attempts]);
}

/** Whether the job is gone; false when it is in its queue, runs or has run. @param queued the key of its BullMQ job */
export async function withdrawJob(redis: Redis, id: string, queued: string): Promise<boolean> {
  const keys = [jobRecordKey(id), JOBS_KEY, JOBS_EXPIRY_KEY, JOBS_OPEN_KEY, queued];
  return (await WITHDRAW.run(redis, keys, [id])) === 1;
}

/** Tells one step from another that looks the same. */
export function createToken(): string {
  return randomBytes(9).toString('base64url');
}

/** Times are numbers with fractions here, and whole ms in Redis. */
function ms(value: number): number {
  return Math.round(value);
}
