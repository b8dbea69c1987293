import type { RunPace } from '../../shared/infer/run-pace.ts';
import type { ReadyModel } from '../../shared/model/ready-model.ts';
import { type QueuePolicy, queuePolicyOf } from '../engine/schedule/queue-policy.ts';

export interface InHand {
  readonly bundles: number;
  readonly rows: number;
  readonly bytes: number;
}

export interface FetchLimits {
  /** Enough for the batch that runs, the one that gathers and what comes after them; more would starve other workers. */
  readonly targetRows: number;
  readonly maxBytes: number;
  readonly maxBundles: number;
}

const MAX_BUNDLES = 64;
/**
 * With a queue policy the engine chooses among what is in hand, and what still lies in Redis has no level and no time
 * running. So more is in hand, though several workers then share a backlog less evenly.
 */
const POLICY_ROWS = 512;
const MAX_POLICY_ROWS = 4096;

/** What is in hand beyond a few runs should be answered in this time, in ms; the rest is for whichever worker has time. */
const HOLD_MS = 100;
/** One runs, one waits, and both may grow. */
const MIN_RUNS = 4;

/**
 * How many rows to have in hand of a model without a queue policy. Short runs are fed by far more rows than fit into one
 * of them; of long ones, such as those of a model that cannot merge requests, a worker would hold seconds of work while
 * another idles.
 * @param slots runs that may be under way at once
 */
export function rowsToHold(
  { runMs, runRows }: Pick<RunPace, 'runMs' | 'runRows'>,
  slots: number,
  targetRows: number,
): number {
  if (runMs === undefined) return targetRows;
  return Math.min(targetRows, Math.ceil(slots * runRows * Math.max(MIN_RUNS, HOLD_MS / runMs)));
}

/** The limits for a model, `targetRows` being what any model gets. */
export function fetchLimitsOf(model: ReadyModel, targetRows: number, maxBytes: number): FetchLimits {
  const { maxBatchSize } = model;
  const policy = fetchPolicyOf(model);
  const policyRows = policy ? policyRowsOf(policy, Math.max(1, maxBatchSize)) : 0;
  return {
    targetRows: Math.max(targetRows, 4 * maxBatchSize, policyRows),
    maxBytes,
    maxBundles: Math.max(MAX_BUNDLES, policyRows), // a bundle may hold a single row
  };
}

/**
 * For the queue of a worker's own sequences. Nobody else can take from it, and a request that waits for a place must not
 * keep the one out that frees it, so all of it is in hand, as far as the engine takes it in.
 */
export function ownQueueLimits(maxBytes: number): FetchLimits {
  return { targetRows: MAX_POLICY_ROWS, maxBytes, maxBundles: MAX_POLICY_ROWS };
}

/** The model's queue policy; undefined where requests run in the order of arrival. */
export function fetchPolicyOf({ config }: ReadyModel): QueuePolicy | undefined {
  return config.schedulingChoice.case === 'dynamicBatching' ? queuePolicyOf(config.schedulingChoice.value) : undefined;
}

/** Enough for all levels to be full of the largest requests. */
function policyRowsOf({ levels, policies, defaultPolicy }: QueuePolicy, maxRows: number): number {
  const sizes = [...policies.values()].map(({ maxQueueSize }) => maxQueueSize);
  if (policies.size < levels) sizes.push((levels - policies.size) * defaultPolicy.maxQueueSize);
  const requests = sizes.filter(Number.isFinite).reduce((sum, size) => sum + size, 0);
  return Math.min(Math.max(POLICY_ROWS, 2 * requests * maxRows), MAX_POLICY_ROWS);
}

/**
 * How many bundles BullMQ may have active, so that about `targetRows` rows are in hand: concurrency counts jobs, and a
 * fixed one lets a worker hoard a thousand rows while another idles, or starve on bundles of one. Measured with two
 * workers: p99 176 ms at a fixed 32, 125 ms with this; a target of 64 rows is too tight for small bundles.
 */
export function fetchConcurrency(inHand: InHand, meanRows: number, limits: FetchLimits): number {
  const full = inHand.rows >= limits.targetRows || inHand.bytes >= limits.maxBytes;
  const more = full ? 0 : Math.max(1, Math.ceil((limits.targetRows - inHand.rows) / Math.max(1, meanRows)));
  return Math.min(Math.max(1, inHand.bundles + more), Math.max(limits.maxBundles, inHand.bundles));
}
