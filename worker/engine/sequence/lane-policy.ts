import type { ReleaseReason } from '../../../shared/infer/response.ts';
import { type BatchLimits, decide, type Mood, type WaitingView } from '../schedule/batch-policy.ts';

/** A sequence whose next request could run, as far as the policies see it. */
export interface ReadyView {
  /** Since when, in ms. */
  readonly readyMs: number;
  /** Those that may share a run have the same. */
  readonly groupKey: string;
}

/** Run these now, or look again after `waitMs`. */
export type LaneDecision<T> =
  { readonly run: readonly T[]; readonly reason: ReleaseReason } | { readonly waitMs: number };

export interface DirectLimits {
  /** Places of the instance. */
  readonly slots: number;
  /** Most rows of one run. */
  readonly maxRows: number;
  /** The part of the places that is worth running before the delay is over, from 0 to 1. */
  readonly minimumUtilization: number;
  readonly delayMs: number;
}

/**
 * Strategy `direct`: everything that is ready and fits together runs as soon as the instance is idle, unless it fills too
 * few places and the delay is not over. `ready` is in the order in which they became ready, and not empty; the longest
 * waiting one is always among those that run.
 */
export function decideDirect<T extends ReadyView>(
  ready: Iterable<T>,
  nowMs: number,
  { slots, maxRows, minimumUtilization, delayMs }: DirectLimits,
  draining: boolean,
): LaneDecision<T> {
  const run: T[] = [];
  let others = false;
  for (const sequence of ready) {
    if (run[0] && sequence.groupKey !== run[0].groupKey) others = true;
    else if (run.length < maxRows) run.push(sequence);
  }
  const ageMs = nowMs - (run[0]?.readyMs ?? nowMs);
  if (run.length >= Math.min(slots, maxRows)) return { run, reason: 'full' };
  if (draining) return { run, reason: 'drain' };
  if (run.length / slots >= minimumUtilization) return { run, reason: others ? 'shape' : 'idle' };
  if (ageMs < delayMs) return { waitMs: delayMs - ageMs };
  return { run, reason: others ? 'shape' : 'delay' };
}

/**
 * Strategy `oldest`: the rules of dynamic batching over the first requests of all candidate sequences. `ready` is in the
 * order in which they became ready, and not empty.
 */
export function decideOldest<T extends ReadyView>(
  ready: Iterable<T>,
  nowMs: number,
  limits: BatchLimits,
  mood: Omit<Mood, 'othersWait'>,
): LaneDecision<T> {
  const groups = new Map<string, T[]>();
  for (const sequence of ready) {
    const group = groups.get(sequence.groupKey);
    if (!group) groups.set(sequence.groupKey, [sequence]);
    else if (group.length < limits.maxRows) group.push(sequence);
    else break; // it is full, and what comes later is younger
  }
  let waitMs = Infinity;
  for (const group of groups.values()) {
    const view = { head: viewOf(group.length), oldestMs: group[0]?.readyMs ?? nowMs, rows: group.length };
    const decision = decide(view, nowMs, limits, { ...mood, othersWait: groups.size > 1 });
    if ('run' in decision) return { run: group.slice(0, decision.run), reason: decision.reason };
    waitMs = Math.min(waitMs, decision.waitMs);
  }
  return { waitMs };
}

/** So many requests of one row each. */
function viewOf(count: number): WaitingView | undefined {
  let head: WaitingView | undefined;
  for (let i = 0; i < count; i += 1) head = { rows: 1, next: head };
  return head;
}
