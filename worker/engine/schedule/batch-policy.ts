import type { ReleaseReason } from '../../../shared/infer/response.ts';

/** A waiting request, as far as the policy sees it. */
export interface WaitingView {
  readonly rows: number;
  readonly next: WaitingView | undefined;
}

/** Waiting requests that may share a run, in the order in which they are to run. */
export interface GroupView {
  readonly head: WaitingView | undefined;
  /** When the oldest of them entered the queue, in ms; with priorities that need not be the first. */
  readonly oldestMs: number;
  /** Rows of all of them together. */
  readonly rows: number;
}

export interface BatchLimits {
  /** Most rows of one run. */
  readonly maxRows: number;
  /** Sizes in rows that run without waiting further, ascending, all within maxRows; empty for none but the maximum. */
  readonly preferredRows: readonly number[];
  /** How long a request may be kept waiting for company, from its arrival. */
  readonly delayMs: number;
}

/** What the policy is told beside the queue. */
export interface Mood {
  /** Whether waiting has brought company lately; see wait-evidence.ts. */
  readonly patient: boolean;
  /** The model is closing: nothing waits for company. */
  readonly draining: boolean;
  /** Requests of another shape wait too, which could not share this run. */
  readonly othersWait: boolean;
}

/** Run the first `run` requests of the group now, or look again after `waitMs`. */
export type Decision = { readonly run: number; readonly reason: ReleaseReason } | { readonly waitMs: number };

/**
 * What to do with a group that is not empty while an instance is idle. Pure. The rules, first match wins:
 *
 * 1. `full`: the rows reach the maximum, or the next request would exceed it. Requests are taken in order, never split.
 * 2. `drain`: the model is closing.
 * 3. `delay`: the oldest has waited for the whole delay. Everything runs, up to the maximum.
 * 4. `preferred`: a preferred size is reached. The largest one wins; what is beyond it goes on waiting.
 *    Where the rows stepped over the largest preferred size, everything runs: nothing is left to wait for.
 * 5. `idle`: the model has no delay, or waiting has brought nobody lately. Everything runs.
 * 6. Otherwise wait for the rest of the delay.
 *
 * `shape` stands for 3 and 5 where requests of other shapes wait: with equal shapes the batch would have been larger.
 */
export function decide(group: GroupView, nowMs: number, limits: BatchLimits, mood: Mood): Decision {
  const { maxRows, preferredRows, delayMs } = limits;
  const largestPreferred = preferredRows.at(-1) ?? maxRows;
  const ageMs = nowMs - group.oldestMs;
  const mayWait = delayMs > 0 && mood.patient && !mood.draining && ageMs < delayMs;
  if (mayWait && group.rows < (preferredRows[0] ?? maxRows)) return { waitMs: delayMs - ageMs }; // the common case, without a scan

  let rows = 0;
  let count = 0;
  let countAtPreferred = 0;
  let full = false;
  for (let item = group.head; item; item = item.next) {
    if (count > 0 && rows + item.rows > maxRows) {
      full = true;
      break;
    }
    rows += item.rows;
    count += 1;
    if (preferredRows.includes(rows)) countAtPreferred = count;
    if (rows >= maxRows) {
      full = true;
      break;
    }
  }

  if (full) return { run: count, reason: 'full' };
  if (mood.draining) return { run: count, reason: 'drain' };
  if (delayMs > 0 && ageMs >= delayMs) return { run: count, reason: mood.othersWait ? 'shape' : 'delay' };
  if (countAtPreferred > 0) return { run: countAtPreferred, reason: 'preferred' };
  if (rows >= largestPreferred) return { run: count, reason: 'preferred' };
  if (!mayWait) return { run: count, reason: mood.othersWait ? 'shape' : 'idle' };
  return { waitMs: delayMs - ageMs };
}
