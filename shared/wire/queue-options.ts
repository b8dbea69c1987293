/**
 * How every queue is opened, on both sides. Finished jobs are kept for the dashboard, by number and age. A job is tried
 * twice, at once and without BullMQ's delay: the delay would be measured on the workers' own clocks, which may differ.
 * No stack traces: they would put paths of the worker on the dashboard.
 */
export const KEEP_COMPLETED = { count: 500, age: 3600 };
export const KEEP_FAILED = { count: 500, age: 86_400 };

export const JOB_OPTIONS = {
  attempts: 2,
  removeOnComplete: KEEP_COMPLETED,
  removeOnFail: KEEP_FAILED,
  stackTraceLimit: 0,
} as const;

/** Entries that BullMQ's event stream keeps; nothing of ours reads it. */
export const EVENTS_MAX_LENGTH = 1000;

/** The name of every job; what it is about is in its data. */
export const JOB_NAME = 'infer';

/** The dashboard's id of a job. Unique per queue, so that an `add` that was sent twice adds one job. */
export function jobId(producer: string, bundle: string): string {
  return `${producer}-${bundle}`;
}
