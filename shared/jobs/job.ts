import { randomBytes } from 'node:crypto';
import { type ErrorCode, InferError, isErrorCode } from '../errors.ts';

/**
 * A job of the Jobs API: a request that nobody holds a connection for.
 *
 *   queued -- a worker takes it --> running -- it answers --> succeeded | failed | expired
 *   running -- it may run again, or its worker gives it back --> queued
 *   queued, running -- cancelled --> cancelled,  -- its time is over --> expired
 *
 * The last four are final: whoever writes one first has written the only one.
 */
export const JOB_STATES = ['queued', 'running', 'succeeded', 'failed', 'cancelled', 'expired'] as const;
export type JobState = (typeof JOB_STATES)[number];

export function isJobState(value: unknown): value is JobState {
  return (JOB_STATES as readonly unknown[]).includes(value);
}

export function isOver(state: JobState): boolean {
  return state !== 'queued' && state !== 'running';
}

export const WEBHOOK_STATES = ['pending', 'delivered', 'failed'] as const;
export type WebhookState = (typeof WEBHOOK_STATES)[number];

/** How far the message about a job's end is: pending until it is delivered, or until nobody tries any more. */
export interface WebhookProgress {
  readonly state: WebhookState;
  /** Tries that were made. */
  readonly attempts: number;
}

/** Who is told of the end of a job. */
export interface JobWebhook extends WebhookProgress {
  readonly url: string;
}

/** What is kept of a job beside its tensors and its answer. Times are Unix times in ms, on Redis' clock in a pool. */
export interface JobRecord {
  readonly id: string;
  readonly model: string;
  /** As it was asked for, or chosen by the traffic of the model; '' leaves it to the version policy. */
  readonly version: string;
  readonly state: JobState;
  readonly createdMs: number;
  /** Not before this time. */
  readonly dueMs: number;
  readonly deadlineMs: number;
  /** When it was last taken to be run. */
  readonly startedMs: number | undefined;
  readonly finishedMs: number | undefined;
  /** How long record and answer are kept once it is over. */
  readonly keepMs: number;
  /** 0 stands in line with everybody; 1 and more behind them, lower numbers first. */
  readonly priority: number;
  /** How often it was taken to be run. */
  readonly runs: number;
  readonly maxAttempts: number;
  /** Why it failed, or failed the last time; what it says for a job that succeeded in the end is history. */
  readonly error: InferError | undefined;
  /** How the answer is to be written, in words of the facade that took the request. */
  readonly answer: string;
  /** Undefined when nobody is told of its end. */
  readonly webhook: JobWebhook | undefined;
  /** Whose job it is; '' where requests need no key. */
  readonly tenant: string;
}

const ID = /^j[0-9a-z]{9}[A-Za-z0-9_-]{16}$/;

/** Ids sort by time; nobody can guess one. */
export function createJobId(nowMs: number): string {
  const time = Math.round(nowMs).toString(36).padStart(9, '0');
  return `j${time}${randomBytes(12).toString('base64url')}`;
}

export function isJobId(value: unknown): value is string {
  return typeof value === 'string' && ID.test(value);
}

/** Failures after which another run may succeed. What is wrong with a request stays wrong. */
const RETRYABLE: readonly ErrorCode[] = ['UNAVAILABLE', 'RESOURCE_EXHAUSTED', 'INTERNAL'];

export function isRetryable({ code }: InferError): boolean {
  return RETRYABLE.includes(code);
}

/** Before a failed job runs again, in ms; doubled each time. */
export const FIRST_RETRY_MS = 500;

/** The state that an error ends a job in. */
export function stateOfError({ code }: InferError): JobState {
  if (code === 'DEADLINE_EXCEEDED') return 'expired';
  return code === 'CANCELLED' ? 'cancelled' : 'failed';
}

/** The record as it lies in Redis; undefined for a hash that is none, or none any more. */
export function decodeJobRecord(id: string, fields: Readonly<Record<string, string>>): JobRecord | undefined {
  const { model, state, code } = fields;
  if (model === undefined || !isJobState(state)) return undefined;
  return {
    id,
    model,
    version: fields.version ?? '',
    state,
    createdMs: numberOf(fields.created) ?? 0,
    dueMs: numberOf(fields.due) ?? 0,
    deadlineMs: numberOf(fields.deadline) ?? 0,
    startedMs: numberOf(fields.started),
    finishedMs: numberOf(fields.finished),
    keepMs: numberOf(fields.keep) ?? 0,
    priority: numberOf(fields.priority) ?? 0,
    runs: numberOf(fields.runs) ?? 0,
    maxAttempts: numberOf(fields.attempts) ?? 1,
    error: isErrorCode(code) ? new InferError(code, fields.message ?? '') : undefined,
    answer: fields.answer ?? '',
    webhook: decodeWebhook(fields),
    tenant: fields.tenant ?? '',
  };
}

function decodeWebhook(fields: Readonly<Record<string, string>>): JobWebhook | undefined {
  const { webhook: url, 'webhook-state': given, 'webhook-attempts': attempts } = fields;
  if (url === undefined) return undefined;
  const state = WEBHOOK_STATES.find((known) => known === given) ?? 'pending';
  return { url, state, attempts: numberOf(attempts) ?? 0 };
}

function numberOf(text: string | undefined): number | undefined {
  const value = text === undefined || text === '' ? NaN : Number(text);
  return Number.isFinite(value) ? value : undefined;
}
