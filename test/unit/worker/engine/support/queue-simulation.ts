import type { BatchLimits, WaitingView } from '../../../../../worker/engine/schedule/batch-policy.ts';
import { decide } from '../../../../../worker/engine/schedule/batch-policy.ts';
import { BatchTuner } from '../../../../../worker/engine/schedule/batch-tuner.ts';
import { RunTimes } from '../../../../../worker/engine/schedule/run-times.ts';

const SIZES: readonly number[] = [1, 2, 4, 8, 16, 32, 64];

export interface Load {
  /** How long a run of so many rows took at load, in ms. */
  readonly curve: (rows: number) => number;
  /** How long it takes, in ms, at a time; as at load unless given. */
  readonly msOf?: (rows: number, nowMs: number) => number;
  /** Requests of one row, at random moments. */
  readonly perSecond: number;
  readonly goalMs: number;
  /** Part of its time by which a run varies at random. */
  readonly noise?: number;
  readonly seconds: number;
}

export interface Outcome {
  /** Of the requests answered in the last minute. */
  readonly p99Ms: number;
  readonly limits: BatchLimits;
  /** When limits changed, in ms. */
  readonly changesMs: readonly number[];
}

/** The most rows a second that runs of any size sustain. */
export function capacityOf(curve: (rows: number) => number): number {
  return 1000 * Math.max(...SIZES.map((rows) => rows / curve(rows)));
}

/** One instance and the policy of a scheduler on a clock of their own, with limits that stay or that a tuner chooses. */
export function simulate(load: Load, fixed?: BatchLimits): Outcome {
  const { curve, msOf = curve, perSecond, goalMs, noise = 0, seconds } = load;
  const arrival = randomFrom(1); // apart from the other, so that all limits meet the same arrivals
  const variation = randomFrom(2);
  const changesMs: number[] = [];
  let nowMs = 0;
  const times = new RunTimes(SIZES.map((rows) => ({ rows, ms: curve(rows) })));
  const config = { maxRows: 64, preferredRows: [], delayMs: 0 };
  const onChange = () => changesMs.push(nowMs);
  const tuner = fixed ? undefined : new BatchTuner({ times, config, auto: true, maxDelayMs: 50, goalMs, onChange }, 0);
  let limits = fixed ?? tuner?.limits ?? config;
  const arrivals: number[] = [];
  let first = 0;
  let arrivalMs = 0;
  const lastMinute: number[] = [];
  while (nowMs < seconds * 1000) {
    for (; arrivalMs <= nowMs; arrivalMs -= (1000 * Math.log(1 - arrival())) / perSecond) arrivals.push(arrivalMs);
    const oldestMs = arrivals[first];
    if (oldestMs === undefined) {
      nowMs = arrivalMs;
      continue;
    }
    const rows = arrivals.length - first;
    const group = { head: waiting(Math.min(rows, limits.maxRows + 1)), oldestMs, rows };
    const decision = decide(group, nowMs, limits, { patient: true, draining: false, othersWait: false });
    if ('waitMs' in decision) {
      nowMs = Math.min(nowMs + Math.max(decision.waitMs, 0.001), arrivalMs);
      continue;
    }
    const runMs = msOf(decision.run, nowMs) * (1 + noise * (variation() - 0.5));
    const waitedMs = nowMs - oldestMs;
    nowMs += runMs;
    for (const enqueuedMs of arrivals.slice(first, first + decision.run)) {
      tuner?.noteAnswer(nowMs - enqueuedMs);
      if (nowMs > seconds * 1000 - 60_000) lastMinute.push(nowMs - enqueuedMs);
    }
    first += decision.run;
    tuner?.noteRun(decision.run, runMs, waitedMs);
    limits = tuner?.review(nowMs) ?? limits;
  }
  lastMinute.sort((a, b) => a - b);
  return { p99Ms: lastMinute[Math.ceil(lastMinute.length * 0.99) - 1] ?? 0, limits, changesMs };
}

function waiting(rows: number): WaitingView | undefined {
  let head: WaitingView | undefined;
  for (let i = 0; i < rows; i += 1) head = { rows: 1, next: head };
  return head;
}

/** Numbers from 0 to 1 that are the same in every run (mulberry32). */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
