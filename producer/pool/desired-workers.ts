/** What there is to do for one model, in the whole pool. */
export interface Demand {
  /** Rows in the queue that no worker has taken. */
  readonly waitingRows: number;
  /** Rows that workers have in hand. */
  readonly runningRows: number;
  /** Sum over the workers of the part of their time that the model takes now. */
  readonly load: number;
  /** Rows a second that one worker gets done; undefined where that was never measured. */
  readonly rowsPerSecond: number | undefined;
  /** Something ran a moment ago, which a look once a second may have missed. */
  readonly recent: boolean;
}

/** How busy workers are to be in the long run; at more, every small crowd makes a queue. */
const LOAD_GOAL = 0.8;
/** Of a model that somebody uses, however little it costs: a worker is there, and nearly all of it is for others. */
const LEAST_NEED = 0.001;

/**
 * How many workers the model needs, as a real number, so that several models can share one:
 *
 *   (waiting + running rows) / (rows a second of a worker x goal)  +  load / 0.8
 *
 * The first part works off what there is within the goal, the second keeps up with what comes. Alone the first part would
 * ask for fewer workers the better the pool keeps up. More workers than rows can do nothing, so a single slow request
 * asks for one. Where nobody knows the speed one worker is asked for, which measures it.
 */
export function neededWorkers(demand: Demand, latencyGoalMs: number): number {
  const { waitingRows, runningRows, load, rowsPerSecond, recent } = demand;
  const rows = waitingRows + runningRows;
  if (rows === 0 && !recent) return 0;
  const keepUp = load / LOAD_GOAL;
  if (rowsPerSecond === undefined || !(rowsPerSecond > 0)) return Math.max(1, keepUp);
  const workOff = rows / ((rowsPerSecond * latencyGoalMs) / 1000);
  return Math.max(LEAST_NEED, Math.min(workOff + keepUp, Math.max(rows, keepUp, 1)));
}

/** Whole workers for needs that share them: at least one where there is any, at most `max`. */
export function wholeWorkers(needs: Iterable<number>, max: number): number {
  let sum = 0;
  for (const need of needs) sum += need;
  if (sum === 0) return 0;
  return Math.min(max, Math.max(1, Math.ceil(sum - 1e-9))); // 0.1 + 0.2 is no reason for another worker
}

/**
 * Goes up at once, and down only to what was enough for a whole window: the largest target in it. So a load that comes and
 * goes within the window does not make workers come and go.
 */
export class SlowDescent {
  readonly #windowMs: number;
  /** Those that may become the largest, by time; their values fall. */
  readonly #targets: { readonly atMs: number; readonly value: number }[] = [];

  constructor(windowMs: number) {
    this.#windowMs = windowMs;
  }

  /** @param nowMs never less than before */
  next(value: number, nowMs: number): number {
    while ((this.#targets.at(-1)?.value ?? Infinity) <= value) this.#targets.pop();
    this.#targets.push({ atMs: nowMs, value });
    while ((this.#targets[0]?.atMs ?? Infinity) <= nowMs - this.#windowMs) this.#targets.shift();
    return this.#targets[0]?.value ?? value;
  }
}
