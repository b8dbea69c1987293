import { InferError } from '../../../shared/errors.ts';
import type { CompanyDifference } from '../../../shared/infer/batching-report.ts';
import type { Clock } from '../../../shared/runtime/clock.ts';
import { byteSizeOf } from '../../../shared/tensor/datatype.ts';
import type { Tensor } from '../../../shared/tensor/tensor.ts';
import type { ModelPlan } from '../batch/model-plan.ts';
import type { ModelInstance } from '../instance/instance.ts';
import { lengthsToTry, runUntil } from './benign-run.ts';
import { PROBE_ID_BOUNDS, PROBE_ROWS, probeInputs } from './probe-rows.ts';
import { distance, norm, numbersOf } from './rows-differ.ts';

/** For all runs of the test together. A model that is slower is judged by its operators. */
const MAX_MS = 2000;

/** As in the test of the batch dimension. */
const MAX_ROW_BYTES = 64 * 1024 * 1024;

/** Answers below it, beside the largest of the other rows, are nearly 0, and any noise would be large beside them. */
const SMALLEST_SHARE = 1e-2;

/** JSON has no infinity, which a number that is lost in company is away. */
const FURTHEST = 1e9;

/** `measured`; or `unknown`: the model does not take made-up input, or its answers are no numbers or left to chance. */
export type CompanyTest =
  | { readonly kind: 'measured'; readonly difference: Omit<CompanyDifference, 'tolerance'> }
  | { readonly kind: 'unknown'; readonly reason: string };

interface Trial {
  readonly plan: ModelPlan;
  readonly instance: ModelInstance;
  readonly clock: Clock;
  readonly length: number;
  readonly idBound: number;
  readonly deadlineMs: number;
}

/**
 * How far the answer for a row moves with the rows beside it: unlike rows run alone and then together, and the worst of
 * them counts. A model that quantises its activations with one scale for the whole batch moves by several percent, others
 * by no more than sums in another order differ. The batch dimension has been tested before.
 */
export async function testCompany(
  plan: ModelPlan,
  instance: ModelInstance,
  clock: Clock,
  tolerance: number,
): Promise<CompanyTest> {
  const deadlineMs = clock.now() + MAX_MS;
  let reason = 'it has no inputs to try';
  for (const length of lengthsToTry(plan)) {
    for (const idBound of plan.inputs.some(({ spec }) => isWhole(spec)) ? PROBE_ID_BOUNDS : [2]) {
      try {
        return await tryRows({ plan, instance, clock, length, idBound, deadlineMs }, tolerance);
      } catch (error) {
        const { code, message } = InferError.from(error);
        reason = code === 'CANCELLED' ? `it takes longer than ${MAX_MS / 1000} s to try` : message;
        if (code === 'CANCELLED') return { kind: 'unknown', reason };
      }
    }
  }
  return { kind: 'unknown', reason };
}

/** @throws InferError when the model does not take such rows */
async function tryRows(trial: Trial, tolerance: number): Promise<CompanyTest> {
  const rows = Array.from({ length: Math.min(PROBE_ROWS, trial.plan.maxRows) }, (_, row) => row);
  const first = probeInputs(trial.plan, trial.length, trial.idBound, [0]);
  if (first.some(({ data }) => data.byteLength > MAX_ROW_BYTES)) {
    return { kind: 'unknown', reason: 'its rows are too large to try' };
  }
  const alone: Tensor[][] = [];
  for (const row of rows) alone.push(await runRows(trial, [row]));
  const together = await runRows(trial, rows);
  const worst = worstOf(alone, together);
  if (!worst) return { kind: 'unknown', reason: 'its answers are no numbers' };
  if (worst.difference.relative > tolerance) {
    const again = worstOf([alone[worst.row] ?? []], await runRows(trial, [worst.row]));
    if (again && again.difference.relative > tolerance) {
      return { kind: 'unknown', reason: 'its answers differ from run to run' };
    }
  }
  return { kind: 'measured', difference: worst.difference };
}

function runRows({ plan, instance, clock, length, idBound, deadlineMs }: Trial, rows: number[]): Promise<Tensor[]> {
  return runUntil(plan, instance, probeInputs(plan, length, idBound, rows), clock, deadlineMs);
}

interface Worst {
  readonly row: number;
  readonly difference: Omit<CompanyDifference, 'tolerance'>;
}

/** Undefined when there is nothing to compare. Whole numbers count only where there is nothing else: they jump. */
function worstOf(alone: readonly Tensor[][], together: readonly Tensor[]): Worst | undefined {
  const floats = together.some(({ datatype }) => isFloat(datatype));
  let worst: Worst | undefined;
  for (const [index, all] of together.entries()) {
    if (floats && !isFloat(all.datatype)) continue;
    const bytes = all.data.byteLength / alone.length;
    const rows = alone.map((outputs, row) => {
      const own = outputs[index];
      const data = all.data.subarray(row * bytes, (row + 1) * bytes);
      return { own: own && numbersOf(own), company: numbersOf({ ...all, data }) };
    });
    const largest = Math.max(0, ...rows.map(({ own }) => (own ? norm(own) : 0)));
    for (const [row, { own, company }] of rows.entries()) {
      if (!own || own.length !== company?.length) continue;
      const difference = differenceOf(own, company, largest * SMALLEST_SHARE);
      if (!worst || difference.relative > worst.difference.relative) worst = { row, difference };
    }
  }
  return worst;
}

function differenceOf(own: Float64Array, company: Float64Array, least: number): Worst['difference'] {
  const away = distance(own, company);
  const size = Math.max(norm(own), least);
  let maxAbs = 0;
  let product = 0;
  for (let i = 0; i < own.length; i += 1) {
    const [x, y] = [own[i] ?? NaN, company[i] ?? NaN];
    if (Number.isFinite(x) && Number.isFinite(y)) product += x * y;
    maxAbs = Math.max(maxAbs, Number.isFinite(x - y) ? Math.abs(x - y) : 0);
  }
  const norms = norm(own) * norm(company);
  return {
    relative: away === 0 ? 0 : Math.min(FURTHEST, size === 0 ? FURTHEST : away / size),
    maxAbs,
    cosine: norms === 0 ? 1 : Math.min(1, product / norms),
  };
}

function isFloat(datatype: Tensor['datatype']): boolean {
  return datatype.startsWith('FP') || datatype === 'BF16';
}

function isWhole({ datatype, optional }: ModelPlan['inputs'][number]['spec']): boolean {
  return !optional && !isFloat(datatype) && datatype !== 'BYTES' && byteSizeOf(datatype) > 0;
}
