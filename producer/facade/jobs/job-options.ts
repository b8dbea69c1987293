import type { IncomingHttpHeaders } from 'node:http';
import { InferError } from '../../../shared/errors.ts';
import { isJobId, isJobState, JOB_STATES } from '../../../shared/jobs/job.ts';
import { shownText } from '../../../shared/tensor/text.ts';
import { assertJobSettings, DEFAULT_JOB_SETTINGS, type JobSettings } from '../../service/jobs/job-settings.ts';
import type { JobQuery } from '../../service/jobs/job-store.ts';

/** The longest that a request may wait for a job. */
const MAX_WAIT_MS = 300_000;
const MAX_LIST = 1000;
const DEFAULT_LIST = 100;
const MAX_NAME_LENGTH = 255;

const UNIT_MS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
const DURATION = /^(\d{1,9}(?:\.\d{1,3})?)(ms|s|m|h|d)?$/;
const WHOLE = /^\d{1,9}$/;
/** Printable ASCII, which is what a header can hold; the IETF draft has it in quotes, and clients leave them out. */
const KEY = /^(?:"[\x20\x21\x23-\x7e]{1,255}"|[\x21\x23-\x7e][\x20\x21\x23-\x7e]{0,254})$/;

/** Query strings as Fastify parses them: repeated names are lists. */
export type Query = Readonly<Record<string, string | readonly string[] | undefined>>;

/** Whether an infer request is to become a job: `Prefer: respond-async`. */
export function wantsJob(prefer: string | string[] | undefined): boolean {
  return prefer !== undefined && preferences(prefer).has('respond-async');
}

/** How long a submission may wait for its answer: `Prefer: wait=10`, in seconds; 0 without. */
export function preferredWaitMs(prefer: string | string[] | undefined): number {
  const wait = prefer === undefined ? undefined : preferences(prefer).get('wait');
  if (wait === undefined) return 0;
  if (!WHOLE.test(wait)) throw wrong('Prefer: wait', 'a whole number of seconds', wait);
  // A preference, not an order.
  return Math.min(Number(wait) * 1000, MAX_WAIT_MS);
}

/** RFC 7240: names and values in a list, each with parameters that mean nothing here. */
function preferences(prefer: string | string[]): Map<string, string> {
  const found = new Map<string, string>();
  for (const part of String(prefer).split(',')) {
    const [name = '', value = ''] = (part.split(';', 1)[0] ?? '').split('=', 2).map((text) => text.trim());
    const key = name.toLowerCase();
    // The first one counts.
    if (key !== '' && !found.has(key)) found.set(key, value.replace(/^"(.*)"$/, '$1'));
  }
  return found;
}

/** The settings of a job from the query of its submission. @throws InferError INVALID_ARGUMENT */
export function readJobSettings(query: Query): JobSettings {
  assertKnown(query, ['priority', 'delay', 'timeout', 'attempts', 'keep', 'webhook']);
  const settings: JobSettings = {
    priority: readWhole(query, 'priority') ?? DEFAULT_JOB_SETTINGS.priority,
    delayMs: readDuration(query, 'delay') ?? DEFAULT_JOB_SETTINGS.delayMs,
    timeoutMs: readDuration(query, 'timeout') ?? DEFAULT_JOB_SETTINGS.timeoutMs,
    maxAttempts: readWhole(query, 'attempts') ?? DEFAULT_JOB_SETTINGS.maxAttempts,
    keepMs: readDuration(query, 'keep') ?? DEFAULT_JOB_SETTINGS.keepMs,
  };
  assertJobSettings(settings);
  return settings;
}

/** The URL that is to be told of a job's end; undefined without. Whether it may be used is the service's to say. */
export function readWebhook(query: Query): string | undefined {
  return single(query, 'webhook');
}

/** The Idempotency-Key header; undefined without. @throws InferError INVALID_ARGUMENT */
export function readIdempotencyKey(headers: IncomingHttpHeaders): string | undefined {
  const value = headers['idempotency-key'];
  if (value === undefined) return undefined;
  const text = String(value);
  if (!KEY.test(text)) throw wrong('header Idempotency-Key', '1 to 255 printable ASCII characters', text);
  return text.startsWith('"') ? text.slice(1, -1) : text;
}

/** How long to wait for a job: `?wait=30s`; 0 without. @throws InferError INVALID_ARGUMENT */
export function readWaitMs(query: Query): number {
  assertKnown(query, ['wait']);
  const waitMs = readDuration(query, 'wait') ?? 0;
  if (waitMs > MAX_WAIT_MS) throw wrong('wait', 'at most 5m', String(query.wait));
  return waitMs;
}

/** Which jobs to list. @throws InferError INVALID_ARGUMENT */
export function readJobQuery(query: Query): JobQuery {
  assertKnown(query, ['model', 'state', 'limit', 'cursor']);
  const model = single(query, 'model');
  const state = single(query, 'state');
  const limit = readWhole(query, 'limit') ?? DEFAULT_LIST;
  const cursor = single(query, 'cursor');
  if (model !== undefined && (model === '' || model.length > MAX_NAME_LENGTH)) {
    throw wrong('model', 'the name of a model', model);
  }
  if (state !== undefined && !isJobState(state)) throw wrong('state', `one of ${JOB_STATES.join(', ')}`, state);
  if (limit < 1 || limit > MAX_LIST) throw wrong('limit', `a whole number from 1 to ${MAX_LIST}`, String(limit));
  if (cursor !== undefined && !isJobId(cursor)) throw wrong('cursor', 'the cursor of the page before', cursor);
  return { model, state, limit, cursor: cursor ?? '' };
}

function readDuration(query: Query, name: string): number | undefined {
  const text = single(query, name);
  if (text === undefined) return undefined;
  const [, number = '', unit = 's'] = DURATION.exec(text) ?? [];
  if (number === '') throw wrong(name, 'a time such as 500ms, 30s, 5m, 2h or 1d', text);
  return Math.round(Number(number) * UNIT_MS[unit as keyof typeof UNIT_MS]); // the pattern allows no other
}

/** One of some words, the first of them when it is not given. @throws InferError INVALID_ARGUMENT */
export function readChoice<T extends string>(query: Query, name: string, choices: readonly [T, ...T[]]): T {
  const text = single(query, name);
  const found = text === undefined ? choices[0] : choices.find((choice) => choice === text);
  if (found === undefined) throw wrong(name, choices.join(' or '), String(text));
  return found;
}

/** @throws InferError INVALID_ARGUMENT */
export function readWhole(query: Query, name: string): number | undefined {
  const text = single(query, name);
  if (text === undefined) return undefined;
  if (!WHOLE.test(text)) throw wrong(name, 'a whole number', text);
  return Number(text);
}

function single(query: Query, name: string): string | undefined {
  const value = query[name];
  if (value === undefined || typeof value === 'string') return value;
  throw new InferError('INVALID_ARGUMENT', `query parameter ${name} is given ${value.length} times, expected once`);
}

/** @throws InferError INVALID_ARGUMENT */
export function assertKnown(query: Query, known: readonly string[]): void {
  const unknown = Object.keys(query).find((name) => !known.includes(name));
  if (unknown === undefined) return;
  const text = `unknown query parameter ${shownText(unknown)}, expected ${known.join(', ')}`;
  throw new InferError('INVALID_ARGUMENT', text);
}

function wrong(name: string, expected: string, given: string): InferError {
  return new InferError('INVALID_ARGUMENT', `${name} must be ${expected}, got ${shownText(given)}`);
}
