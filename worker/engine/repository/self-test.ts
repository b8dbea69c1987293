import { InferError } from '../../../shared/errors.ts';
import type { Clock } from '../../../shared/runtime/clock.ts';
import type { Tensor } from '../../../shared/tensor/tensor.ts';
import { elementCount } from '../../../shared/tensor/tensor.ts';
import type { ModelPlan } from '../batch/model-plan.ts';
import { bytesEnd } from '../batch/bytes-rows.ts';
import type { ModelInstance } from '../instance/instance.ts';
import { benignInputs, lengthsToTry, runUntil } from './benign-run.ts';
import { rowsDiffer } from './rows-differ.ts';

/** One row above this is not tried: the test must not cost what the model's own work costs. */
const MAX_ROW_BYTES = 64 * 1024 * 1024;

/** For all runs of the test together. */
const MAX_MS = 30_000;

/**
 * `fine`; or `broken`: rows do not stand for themselves, so requests must not be merged; or `unknown`: the model does not
 * take made-up input, which says nothing.
 */
export type SelfTest = { readonly kind: 'fine' } | { readonly kind: 'broken' | 'unknown'; readonly reason: string };

/**
 * Whether the batch dimension is real: an export can declare it free and still hold a 1 in some Reshape inside. Two
 * different rows run alone and then together; the answers must have one row each and be the same.
 */
export async function testBatchDimension(plan: ModelPlan, instance: ModelInstance, clock: Clock): Promise<SelfTest> {
  let last: SelfTest = { kind: 'unknown', reason: 'it has no inputs to try' };
  for (const length of lengthsToTry(plan)) {
    last = await tryLength(plan, instance, clock, length);
    if (last.kind !== 'unknown') return last;
  }
  return last;
}

async function tryLength(plan: ModelPlan, instance: ModelInstance, clock: Clock, length: number): Promise<SelfTest> {
  const first = benignInputs(plan, length, [0]);
  const second = benignInputs(plan, length, [1]);
  if (first.some((tensor) => tensor.data.byteLength > MAX_ROW_BYTES)) {
    return { kind: 'unknown', reason: 'its rows are too large to try' };
  }
  const deadlineMs = clock.now() + MAX_MS;
  let alone: [Tensor[], Tensor[]];
  try {
    alone = [
      await runUntil(plan, instance, first, clock, deadlineMs),
      await runUntil(plan, instance, second, clock, deadlineMs),
    ];
  } catch (error) {
    return { kind: 'unknown', reason: InferError.from(error).message };
  }
  let together: Tensor[];
  try {
    together = await runUntil(plan, instance, benignInputs(plan, length, [0, 1]), clock, deadlineMs);
  } catch (error) {
    const { code, message } = InferError.from(error);
    if (code === 'CANCELLED') return { kind: 'unknown', reason: message };
    return { kind: 'broken', reason: `it takes one row, and fails with two: ${message}` };
  }
  return compare(alone, together);
}

function compare(alone: [Tensor[], Tensor[]], together: readonly Tensor[]): SelfTest {
  for (const [index, both] of together.entries()) {
    const [a, b] = [alone[0][index], alone[1][index]];
    if (!a || !b) continue;
    for (const [tensor, rows] of [[a, 1] as const, [b, 1] as const, [both, 2] as const]) {
      if (tensor.shape[0] === rows) continue;
      const shape = `[${tensor.shape.join(',')}]`;
      return { kind: 'broken', reason: `its output '${tensor.name}' has the shape ${shape} for ${rows} row(s)` };
    }
    const halves = halvesOf(both);
    if (!halves || rowsDiffer(a, b, halves)) {
      return { kind: 'broken', reason: `its output '${both.name}' for a row depends on the other rows` };
    }
  }
  return { kind: 'fine' };
}

function halvesOf(both: Tensor): [Uint8Array, Uint8Array] | undefined {
  const elements = elementCount(both.shape.slice(1));
  const middle = both.datatype === 'BYTES' ? bytesEnd(both.data, 0, elements) : both.data.byteLength / 2;
  return middle < 0 ? undefined : [both.data.subarray(0, middle), both.data.subarray(middle)];
}
