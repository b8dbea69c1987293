import type { CurvePoint } from '../../../shared/infer/batching-report.ts';
import type { Clock } from '../../../shared/runtime/clock.ts';
import type { ModelPlan } from '../batch/model-plan.ts';
import type { ModelInstance } from '../instance/instance.ts';
import { PAYS_BELOW } from '../schedule/choose-batching.ts';
import { benignInputs, lengthsToTry, runUntil } from './benign-run.ts';

const RUNS = 3;

/**
 * Runs the model with 1, 2, 4 … rows, up to its maximum or until the time is up; each point is the fastest of a few runs.
 * Empty when made-up input is not taken, which says nothing.
 * @param budgetMs for all runs together, so that a large model does not load for minutes
 */
export async function measureBatchCurve(
  plan: ModelPlan,
  instance: ModelInstance,
  clock: Clock,
  budgetMs: number,
): Promise<readonly CurvePoint[]> {
  for (const length of lengthsToTry(plan)) {
    const points = await measureLength(plan, instance, clock, length, budgetMs);
    if (points.length > 0) return points;
  }
  return [];
}

async function measureLength(
  plan: ModelPlan,
  instance: ModelInstance,
  clock: Clock,
  length: number,
  budgetMs: number,
): Promise<readonly CurvePoint[]> {
  const deadlineMs = clock.now() + budgetMs;
  const points: CurvePoint[] = [];
  let rows = 1;
  let ms = Infinity;
  try {
    for (; clock.now() < deadlineMs; rows = Math.min(rows * 2, plan.maxRows)) {
      const inputs = benignInputs(plan, length, Array<0>(rows).fill(0));
      ms = Infinity;
      const before = points.at(-1);
      // A row that costs more than in a smaller run is more often a busy machine than the model: more runs tell.
      const dear = () => before !== undefined && ms / rows > before.ms / before.rows;
      for (let run = 0; run <= RUNS || (run <= 2 * RUNS && dear()); run += 1) {
        const startedMs = clock.now();
        await runUntil(plan, instance, inputs, clock, deadlineMs);
        if (run > 0) ms = Math.min(ms, clock.now() - startedMs); // the first run of a size takes its memory
      }
      points.push({ rows, ms });
      if (rows >= plan.maxRows) break;
    }
  } catch {
    // Stopped at the deadline, or refused: what was measured holds, for the first size even if it was one run.
    if (points.length === 0 && ms < Infinity) points.push({ rows, ms });
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
