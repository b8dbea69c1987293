import type { JobRecord } from '../../../shared/jobs/job.ts';
import { webhookOf } from './job-settings.ts';
import type { NewJob } from './job-store.ts';

/** The record of a job that is taken now. */
export function newRecord(id: string, nowMs: number, job: NewJob): JobRecord {
  const { request, settings } = job;
  return {
    id,
    model: request.model,
    version: request.version,
    state: 'queued',
    createdMs: nowMs,
    dueMs: nowMs + settings.delayMs,
    deadlineMs: nowMs + settings.delayMs + settings.timeoutMs,
    startedMs: undefined,
    finishedMs: undefined,
    keepMs: settings.keepMs,
    priority: settings.priority,
    runs: 0,
    maxAttempts: settings.maxAttempts,
    error: undefined,
    answer: job.answer,
    webhook: webhookOf(job),
    tenant: job.tenant,
  };
}
