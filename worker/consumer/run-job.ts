import { InferError } from '../../shared/errors.ts';
import { deadlineError } from '../../shared/infer/deadline-error.ts';
import { NotServed } from '../../shared/infer/not-served.ts';
import { FIRST_RETRY_MS, isRetryable, stateOfError } from '../../shared/jobs/job.ts';
import type { JobEnd } from '../../shared/jobs/job-scripts.ts';
import type { DecodedBundle, JobPart } from '../../shared/wire/job.ts';
import { encodeReplies, type Reply } from '../../shared/wire/reply.ts';
import { cancelledError } from './cancel-watch.ts';
import type { JobRecords } from './job-records.ts';
import { type BundleContext, runBundle } from './run-bundle.ts';

/** How often BullMQ has handed the job out, and what its options allow. */
export interface JobTries {
  /** Of this run, from 1. */
  readonly attempt: number;
  readonly maxAttempts: number;
  /** Times that a worker took it which does not serve the model any more; they are no attempts. */
  readonly bounces: number;
}

/** What is to become of the BullMQ job. */
export type JobRunEnd =
  /** It is over and the record says so; `error` when it failed. */
  | { readonly kind: 'over'; readonly error?: InferError }
  /** It failed and may run again after BullMQ's back-off. */
  | { readonly kind: 'again'; readonly error: InferError }
  /** Another worker may serve the model. */
  | { readonly kind: 'elsewhere'; readonly delayMs: number }
  /** It was not started, and goes back. */
  | { readonly kind: 'back' };

const MAX_BOUNCES = 10;
const FIRST_BOUNCE_MS = 100;
const MAX_BOUNCE_MS = 5000;

/**
 * Runs a job of the Jobs API and writes its answer to its record, where it counts only when it is the first. Resolves when
 * Redis has acknowledged that: only then may the BullMQ job be completed, and only after that its tensors removed.
 * Rejects only when Redis fails.
 */
export async function runJob(
  context: BundleContext,
  records: JobRecords,
  bundle: DecodedBundle & { readonly job: JobPart },
  tries: JobTries,
): Promise<JobRunEnd> {
  const { id, timeoutMs } = bundle.job;
  const deadlineMs = bundle.items[0]?.deadlineMs ?? Infinity;
  if (context.link.now() >= deadlineMs) {
    await records.finish(id, { state: 'expired', error: deadlineError(timeoutMs) });
    return { kind: 'over' };
  }
  const started = await records.start(id);
  if (!('run' in started)) {
    if (started.over !== 'gone') return { kind: 'over' };
    return { kind: 'over', error: new InferError('NOT_FOUND', 'the job has no record') };
  }
  const replies: Reply[] = [];
  const collect = (_producer: string, reply: Reply): Promise<void> => {
    replies.push(reply);
    return Promise.resolve();
  };
  const outcome = await runBundle({ ...context, own: false, replies: { send: collect } }, bundle);
  if (outcome.unstarted.size > 0) {
    await records.requeue(id, started.run);
    return { kind: 'back' };
  }
  const nowMs = context.link.now();
  const [reply] = replies;
  if (reply && 'response' in reply) {
    const end = endOf(reply);
    await records.finish(id, end);
    return end.error ? { kind: 'over', error: end.error } : { kind: 'over' };
  }
  let error = reply?.error ?? cancelledError();
  // Whoever notices it, the client is told the same.
  if (nowMs >= deadlineMs) error = deadlineError(timeoutMs);
  if (error instanceof NotServed && tries.bounces < MAX_BOUNCES) {
    await records.requeue(id, started.run);
    return { kind: 'elsewhere', delayMs: Math.min(FIRST_BOUNCE_MS * 2 ** tries.bounces, MAX_BOUNCE_MS) };
  }
  const retryMs = FIRST_RETRY_MS * 2 ** (tries.attempt - 1);
  const mayRetry = isRetryable(error) && outcome.refused === 0;
  if (mayRetry && tries.attempt < tries.maxAttempts && nowMs + retryMs < deadlineMs) {
    await records.requeue(id, started.run, error);
    return { kind: 'again', error };
  }
  const state = stateOfError(error);
  await records.finish(id, { state, error });
  return state === 'failed' ? { kind: 'over', error } : { kind: 'over' };
}

/** An answer that does not fit is an error. */
function endOf(reply: Reply): JobEnd {
  try {
    return { state: 'succeeded', frame: encodeReplies([reply]) };
  } catch (cause) {
    const error = InferError.from(cause, 'the answer could not be encoded');
    return { state: 'failed', error };
  }
}
