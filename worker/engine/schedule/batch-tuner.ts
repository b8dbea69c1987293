import type { BatchLimits } from './batch-policy.ts';
import { boundDelay, chooseBatching } from './choose-batching.ts';
import type { RunTimes } from './run-times.ts';

/** Between two looks at what has happened lie at least so many answers and so much time. */
export const REVIEW_ANSWERS = 200;
export const REVIEW_MS = 2000;

/** The p99 is taken over the last so many answers. */
const KEPT_ANSWERS = 1000;

/** How much of the goal is planned with. The rest is for what is not planned: other models, long texts, the way there. */
const FIRST_SHARE = 0.8;
const LEAST_SHARE = 0.4;
const MOST_SHARE = 0.9;
const LESS = 0.85;
const MORE = 0.02;
/** Below this part of the goal a p99 leaves room. */
const ROOMY = 0.7;
/** What a share below the first one regains where the goal is just kept, so that a few bad seconds do not cost for ever. */
const REGAINED = 0.005;

/** A change of the delay by less, of itself or of a run, is not worth one. */
const DELAY_STEP = 0.2;

/** A run is late when its oldest request waited longer than the delay and so many full runs. */
const LATE_RUNS = 1.5;
/** More late runs begin a press. */
const PRESSED_ABOVE = 0.5;
/** Where the goal is missed so many do: it is the line that misses it. */
const MISSED_ABOVE = 0.1;
/** Fewer end it. Runs that smaller limits would hardly ever have cut lose nothing by going on under a press. */
const RELAXED_BELOW = 0.02;

export interface TunerOptions {
  readonly times: RunTimes;
  /** What the config says: the maximum of rows, and with it the preferred sizes and the delay where `auto` is off. */
  readonly config: BatchLimits;
  /** Rows and delay are chosen; else only the delay is bounded by the goal. */
  readonly auto: boolean;
  /** Longest delay that may be chosen. */
  readonly maxDelayMs: number;
  /** 99 of 100 requests are to be answered within; undefined for no goal. */
  readonly goalMs: number | undefined;
  /** Called when other limits hold. */
  readonly onChange: (tuned: Tuned) => void;
}

/** Limits, and why they hold; '' where the config says so. */
export interface Tuned {
  readonly limits: BatchLimits;
  readonly reason: string;
}

/**
 * Chooses the limits of a model's batches by choose-batching.ts, at load and then slowly while it runs: from what runs
 * take and from the p99 of the answers. A look every few seconds, after enough answers; other rows must be chosen twice in
 * a row. Where the p99 misses the goal, the share of the goal that is planned with shrinks; where there is room it grows.
 * Where most runs are late although they are full, the goal is lost to the load, and smaller runs would only lose more:
 * then the size with the best time per row is taken until the line is short again.
 */
export class BatchTuner implements Tuned {
  readonly #options: TunerOptions;
  readonly #answersMs = new Float64Array(KEPT_ANSWERS);
  #limits: BatchLimits;
  #reason = '';
  #share = FIRST_SHARE;
  #pressed = false;
  /** The rows of now, which stay while they are good enough; 0 at load and when a press begins. */
  #heldRows = 0;
  /** What would be chosen without a press. */
  #relaxedRows = 0;
  #wantedRows = 0;
  /** The last look found the goal missed, and no press. */
  #missed = false;
  #answers = 0;
  #runs = 0;
  #lateRuns = 0;
  #reviewedMs: number;

  constructor(options: TunerOptions, nowMs: number) {
    this.#options = options;
    this.#reviewedMs = nowMs;
    this.#limits = options.config;
    const chosen = this.#choose();
    this.#limits = chosen.limits;
    this.#reason = chosen.reason;
  }

  get limits(): BatchLimits {
    return this.#limits;
  }

  get reason(): string {
    return this.#reason;
  }

  /** A run of so many rows took so long, and its oldest request had waited so long before it. */
  noteRun(rows: number, runMs: number, waitedMs: number): void {
    const { times } = this.#options;
    times.note(rows, runMs);
    this.#runs += 1;
    if (this.#isLate(rows, waitedMs)) this.#lateRuns += 1;
  }

  /** A request was answered so long after its arrival. */
  noteAnswer(latencyMs: number): void {
    this.#answersMs[this.#answers % KEPT_ANSWERS] = latencyMs;
    this.#answers += 1;
  }

  /** Other limits, where it is time for a look and it shows that others are better. */
  review(nowMs: number): BatchLimits | undefined {
    if (this.#answers < REVIEW_ANSWERS || nowMs - this.#reviewedMs < REVIEW_MS) return undefined;
    const pressedBefore = this.#pressed;
    this.#feel();
    this.#options.times.review();
    this.#heldRows = this.#pressed && !pressedBefore ? 0 : this.#limits.maxRows;
    this.#answers = 0;
    this.#runs = 0;
    this.#lateRuns = 0;
    this.#reviewedMs = nowMs;
    const { limits, reason } = this.#choose();
    const sure = limits.maxRows === this.#wantedRows || this.#pressed !== pressedBefore;
    this.#wantedRows = limits.maxRows;
    const { maxRows, delayMs } = this.#limits;
    const otherRows = limits.maxRows !== maxRows;
    if (otherRows && !sure) return undefined;
    const runMs = this.#options.times.at(maxRows);
    const least = DELAY_STEP * Math.max(delayMs, limits.delayMs, runMs);
    if (!otherRows && Math.abs(limits.delayMs - delayMs) <= least) return undefined;
    this.#limits = limits;
    this.#reason = reason;
    this.#options.onChange({ limits, reason });
    return limits;
  }

  /**
   * Whether the line is longer than the limits can keep short. During a press there is no line, as the larger runs carry
   * the load: what counts is whether those that were really taken are larger than runs without a press could be.
   */
  #isLate(rows: number, waitedMs: number): boolean {
    const { maxRows, delayMs } = this.#limits;
    if (this.#pressed && this.#relaxedRows < maxRows) return rows > this.#relaxedRows;
    return waitedMs > delayMs + LATE_RUNS * this.#options.times.at(maxRows);
  }

  /** What the answers since the last look say about the goal. */
  #feel(): void {
    const { goalMs } = this.#options;
    if (goalMs === undefined) return;
    const late = this.#runs === 0 ? 0 : this.#lateRuns / this.#runs;
    const p99Ms = percentile99(this.#answersMs.subarray(0, Math.min(this.#answers, KEPT_ANSWERS)));
    const pressedBefore = this.#pressed;
    const above = pressedBefore ? RELAXED_BELOW : p99Ms > goalMs ? MISSED_ABOVE : PRESSED_ABOVE;
    this.#pressed = late > above;
    if (this.#pressed || pressedBefore) {
      this.#missed = false; // the larger runs of a press say nothing about the share
      return;
    }
    const missedBefore = this.#missed;
    this.#missed = p99Ms > goalMs;
    if (this.#missed && missedBefore) this.#share = Math.max(LEAST_SHARE, this.#share * LESS);
    else if (p99Ms < goalMs * ROOMY) this.#share = Math.min(MOST_SHARE, this.#share + MORE);
    else if (!this.#missed && this.#share < FIRST_SHARE) this.#share += REGAINED;
  }

  #choose(): Tuned {
    const { times, config, auto, maxDelayMs, goalMs } = this.#options;
    const budgetMs = goalMs === undefined ? undefined : goalMs * this.#share;
    const bounds = { maxRows: config.maxRows, maxDelayMs, budgetMs, pressed: this.#pressed, heldRows: this.#heldRows };
    if (!auto || times.sizes.length === 0) {
      const delayMs = boundDelay(times, config.maxRows, { maxDelayMs: config.delayMs, budgetMs });
      const bounded = delayMs < config.delayMs;
      const reason = [
        ...(auto ? ['no run could be measured at load, so the config holds'] : []),
        ...(bounded ? [`the delay leaves room for two runs within slo_p99_ms ${goalMs ?? 0}`] : []),
      ];
      return { limits: { ...config, delayMs }, reason: reason.join('; ') };
    }
    const { rows, delayMs, tooSlow } = chooseBatching(times, bounds);
    this.#relaxedRows = this.#pressed ? chooseBatching(times, { ...bounds, pressed: false, heldRows: 0 }).rows : rows;
    const limits = { maxRows: rows, preferredRows: [], delayMs };
    return { limits, reason: this.#reasonOf(rows, tooSlow) };
  }

  #reasonOf(rows: number, tooSlow: boolean): string {
    const { times, goalMs } = this.#options;
    const run = `a run of ${rows} takes ${rounded(times.at(rows))} ms`;
    if (goalMs === undefined) return `auto: ${run}, the best time per row or near it`;
    if (this.#pressed)
      return `auto: ${run}, the best time per row or near it; the load is too high for slo_p99_ms ${goalMs}`;
    if (tooSlow) return `auto: ${run}, too long for slo_p99_ms ${goalMs}`;
    return `auto: ${run}, the best time per row or near it that keeps slo_p99_ms ${goalMs}`;
  }
}

function percentile99(values: Float64Array): number {
  const sorted = values.toSorted();
  return sorted[Math.ceil(sorted.length * 0.99) - 1] ?? 0;
}

function rounded(ms: number): number {
  return Number(ms.toPrecision(3));
}
