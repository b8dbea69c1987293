import type { ModelStats } from '../../shared/infer/model-stats.ts';

/** What the meter wants to know of a worker. */
export interface MeteredEngine {
  /** What has run so far, one for each model version. */
  stats(): Iterable<ModelStats>;
  /** How many runs of the model version can be under way at one time. */
  slotsOf(model: string, version: string): number;
  /** The models that an ensemble runs; empty for any other. */
  membersOf(model: string, version: string): readonly string[];
}

export interface Speed {
  /** Rows a second that the worker gets done of the model when it does nothing else; undefined until some have run. */
  readonly rowsPerSecond: number | undefined;
  /** Part of the worker's time that the model takes now, from 0 to 1. */
  readonly load: number;
}

/** Half of a measured speed is from so much of the latest work; time without work ages nothing. */
const SPEED_HALF_LIFE_MS = 3000;
/** Half of a load is from the latest so much time. */
const LOAD_HALF_LIFE_MS = 5000;

interface Counted {
  rows: number;
  computeMs: number;
}

/** Sums that age by the work that is added. */
interface Measured {
  rows: number;
  busyMs: number;
  load: number;
}

const NOTHING: Speed = { rowsPerSecond: undefined, load: 0 };

/**
 * Measures from real runs how fast this worker is, without anything on the way of a request: once a second it looks at what
 * the statistics have counted since. The time that a model has cost is the larger of two: what its runs took, divided by how
 * many of them can be under way, and its part (by rows) of the time for which the event loop was busy, as for small models
 * the way through the process costs more than the run. An ensemble costs what its members do. Waiting for company costs
 * nothing, so a lightly used worker is not taken for a slow one.
 */
export class SpeedMeter {
  readonly #engine: MeteredEngine;
  readonly #counted = new Map<string, Counted>();
  readonly #measured = new Map<string, Measured>();
  #sampledMs: number | undefined;

  constructor(engine: MeteredEngine) {
    this.#engine = engine;
  }

  /**
   * @param nowMs on any one clock
   * @param loop part of the time since the last sample for which the event loop was busy, from 0 to 1
   */
  sample(nowMs: number, loop: number): void {
    const since = this.#since();
    const beforeMs = this.#sampledMs;
    this.#sampledMs = nowMs;
    if (beforeMs === undefined || nowMs <= beforeMs) return;
    const windowMs = nowMs - beforeMs;
    let allRows = 0;
    for (const { rows } of since.values()) allRows += rows;
    for (const [model, { rows, computeMs }] of since) {
      const loopMs = allRows === 0 ? 0 : (loop * windowMs * rows) / allRows;
      this.#add(model, rows, Math.max(computeMs, loopMs), windowMs);
    }
    for (const model of this.#measured.keys()) if (!since.has(model)) this.#measured.delete(model);
  }

  of(model: string): Speed {
    const measured = this.#measured.get(model);
    if (!measured) return NOTHING;
    const { rows, busyMs, load } = measured;
    const rowsPerSecond = rows > 0 && busyMs > 0 ? (rows / busyMs) * 1000 : undefined;
    return { rowsPerSecond, load };
  }

  /** By model name: rows that were answered since the last time, and what their runs cost. */
  #since(): Map<string, Counted> {
    const computed = new Map<string, Counted>();
    const ensembles: { readonly model: string; readonly members: readonly string[] }[] = [];
    for (const stats of this.#engine.stats()) {
      const { model, version } = stats;
      const { rows, computeMs } = this.#delta(stats);
      const sum = computed.get(model) ?? { rows: 0, computeMs: 0 };
      computed.set(model, sum);
      sum.rows += rows;
      sum.computeMs += computeMs / Math.max(1, this.#engine.slotsOf(model, version));
      const members = this.#engine.membersOf(model, version);
      if (members.length > 0) ensembles.push({ model, members });
    }
    for (const { model, members } of ensembles) {
      const sum = computed.get(model);
      if (!sum || sum.rows === 0) continue;
      for (const member of members) sum.computeMs += computed.get(member)?.computeMs ?? 0;
    }
    return computed;
  }

  #delta(stats: ModelStats): Counted {
    const key = `${stats.model}/${stats.version}`;
    const now = { rows: stats.inferenceCount, computeMs: computeMsOf(stats) };
    const before = this.#counted.get(key);
    this.#counted.set(key, now);
    // What was counted before this meter began is no measurement, and a version may begin anew.
    if (!before || now.rows < before.rows) return { rows: 0, computeMs: 0 };
    return { rows: now.rows - before.rows, computeMs: Math.max(0, now.computeMs - before.computeMs) };
  }

  #add(model: string, rows: number, busyMs: number, windowMs: number): void {
    let measured = this.#measured.get(model);
    if (!measured) this.#measured.set(model, (measured = { rows: 0, busyMs: 0, load: 0 }));
    if (rows > 0) {
      const kept = 0.5 ** (busyMs / SPEED_HALF_LIFE_MS);
      measured.rows = measured.rows * kept + rows;
      measured.busyMs = measured.busyMs * kept + busyMs;
    }
    const keptLoad = 0.5 ** (windowMs / LOAD_HALF_LIFE_MS);
    measured.load = measured.load * keptLoad + Math.min(1, busyMs / windowMs) * (1 - keptLoad);
  }
}

/** Of all executions together. */
function computeMsOf({ batchSizes }: ModelStats): number {
  let ns = 0;
  for (const size of batchSizes.values()) ns += size.computeInputNs + size.computeInferNs + size.computeOutputNs;
  return ns / 1e6;
}
