import type { Clock } from '../../../shared/runtime/clock.ts';
import type { ModelPlan } from '../batch/model-plan.ts';
import type { ModelInstance } from '../instance/instance.ts';
import { benignInputs, lengthsToTry, runUntil } from './benign-run.ts';

/** How long a run of so many rows takes, in ms: the fastest of a few. */
export interface CurvePoint {
  readonly rows: number;
  readonly ms: number;
}

/** For all runs together, so that a large model does not load for minutes. */
const BUDGET_MS = 500;
const RUNS = 3;
/** Company pays when a row in it takes at most this share of what it takes alone. */
const PAYS_BELOW = 0.9;

/**
 * Runs the model with 1, 2, 4 … rows, up to its maximum or until the time is up. Empty when made-up input is not taken,
 * which says nothing.
 */
export async function measureBatchCurve(
  plan: ModelPlan,
  instance: ModelInstance,
  clock: Clock,
): Promise<readonly CurvePoint[]> {
  for (const length of lengthsToTry(plan)) {
    const points = await measureLength(plan, instance, clock, length);
    if (points.length > 0) return points;
  }
  return [];
}

async function measureLength(
  plan: ModelPlan,
  instance: ModelInstance,
  clock: Clock,
  length: number,
): Promise<readonly CurvePoint[]> {
  const deadlineMs = clock.now() + BUDGET_MS;
  const points: CurvePoint[] = [];
  try {
    for (let rows = 1; clock.now() < deadlineMs; rows = Math.min(rows * 2, plan.maxRows)) {
      const inputs = benignInputs(plan, length, Array<0>(rows).fill(0));
      let ms = Infinity;
      for (let run = 0; run <= RUNS; run += 1) {
        const startedMs = clock.now();
        await runUntil(plan, instance, inputs, clock, deadlineMs);
        if (run > 0) ms = Math.min(ms, clock.now() - startedMs); // the first run of a size takes its memory
      }
      points.push({ rows, ms });
      if (rows >= plan.maxRows) break;
    }
  } catch {
    return points; // stopped at the deadline, or refused: what was measured holds
  }
  return points;
}

/**
 * Whether it is worth a request's while to wait for company. Only a curve that goes as far as four rows, or to the maximum,
 * and shows no gain at any size says no.
 */
export function companyPays(points: readonly CurvePoint[], maxRows: number): boolean {
  const alone = points[0];
  const furthest = points.at(-1)?.rows ?? 0;
  if (!alone || furthest < Math.min(4, maxRows)) return true;
  return points.some(({ rows, ms }) => rows > 1 && ms / rows <= alone.ms * PAYS_BELOW);
}
