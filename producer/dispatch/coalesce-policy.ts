import type { RunPace } from '../../shared/infer/run-pace.ts';

/**
 * When the requests that wait for one model leave as a bundle. A job costs the same whether it carries one request or
 * thirty-two (measured: 525 us of CPU for a job of one, 80 us a request in full bundles), so under load requests wait a
 * moment for company; on an idle line they never do.
 */
export interface LineState {
  readonly requests: number;
  readonly rows: number;
  readonly bytes: number;
  /** Arrival of the oldest waiting request. All times in ms on one clock. */
  readonly oldestMs: number;
  readonly lastFlushMs: number;
  /** Bundles that were handed to Redis and not acknowledged yet. */
  readonly addsInFlight: number;
}

export interface BundleLimits {
  readonly maxRequests: number;
  /** See `rowsPerBundle`. */
  readonly maxRows: number;
  readonly maxBytes: number;
  readonly windowMs: number;
  /** With this many adds under way the line is busy, and what arrives waits for its window. */
  readonly maxAddsInFlight: number;
}

export type LineDecision =
  { readonly kind: 'rest' } | { readonly kind: 'flush' } | { readonly kind: 'wait'; readonly ms: number };

/** Where a run is over in this time, in ms, the second batch of a bundle hardly waits for the first. */
const SHORT_RUN_MS = 5;

/**
 * One bundle goes to one worker, so it should fit one batch there while other workers may be idle. Where runs are short
 * that matters less than the cost of a job: bundles of 32 requests instead of 16 save a third of the CPU a request. Where
 * they are long and smaller than batches may be, as those of a model that cannot merge requests, it holds two of them.
 */
export function rowsPerBundle(
  maxBatchSize: number,
  maxRequests: number,
  { runMs, runRows }: Pick<RunPace, 'runMs' | 'runRows'>,
): number {
  const oneBatch = Math.max(1, maxBatchSize);
  if (runMs === undefined) return oneBatch;
  return runMs <= SHORT_RUN_MS ? Math.max(oneBatch, maxRequests) : Math.min(oneBatch, Math.ceil(2 * runRows));
}

/** The part of what requests wait in the pool that they may wait for company before it, and the most of it, in ms. */
const WINDOW_PART = 1 / 16;
const MAX_WINDOW_MS = 25;

/**
 * How long a request may wait for company. Where the workers are behind, a request that leaves a little later is answered
 * no later, and a job costs the same whether it carries one or several: the processor's time goes to the model instead.
 * @param windowMs what a request may always wait
 * @param waitMs how long requests lately took beyond their run
 */
export function windowFor(windowMs: number, waitMs: number): number {
  return Math.max(windowMs, Math.min(MAX_WINDOW_MS, waitMs * WINDOW_PART));
}

export function decideFlush(line: LineState, nowMs: number, limits: BundleLimits): LineDecision {
  if (line.requests === 0) return { kind: 'rest' };
  if (line.requests >= limits.maxRequests || line.rows >= limits.maxRows || line.bytes >= limits.maxBytes) {
    return { kind: 'flush' };
  }
  const windowEndsMs = line.oldestMs + limits.windowMs;
  const idleFromMs = line.addsInFlight < limits.maxAddsInFlight ? line.lastFlushMs + limits.windowMs : Infinity;
  const ms = Math.min(windowEndsMs, idleFromMs) - nowMs;
  return ms <= 0 ? { kind: 'flush' } : { kind: 'wait', ms };
}

export interface Weight {
  readonly rows: number;
  readonly bytes: number;
}

/** How many of the waiting requests, in order, go into the next bundle. At least one, however heavy it is. */
export function bundleSize(waiting: readonly Weight[], limits: BundleLimits): number {
  let count = 0;
  let rows = 0;
  let bytes = 0;
  for (const request of waiting) {
    rows += request.rows;
    bytes += request.bytes;
    const full = count >= limits.maxRequests || rows > limits.maxRows || bytes > limits.maxBytes;
    if (full && count > 0) break;
    count += 1;
  }
  return count;
}
