import type { Clock } from '../../../shared/runtime/clock.ts';
import type { Tensor } from '../../../shared/tensor/tensor.ts';
import { elementCount } from '../../../shared/tensor/tensor.ts';
import type { ModelPlan } from '../batch/model-plan.ts';
import type { ModelInstance } from '../instance/instance.ts';
import { benignRow } from './benign-rows.ts';

/** What stands for variable dimensions, tried in order: short for texts, larger for pictures. */
const LENGTHS = [4, 64];

export function lengthsToTry({ inputs }: ModelPlan): readonly number[] {
  return inputs.some(({ spec }) => spec.modelShape.indexOf(-1, 1) > 0) ? LENGTHS : [1];
}

/** Made-up inputs of these rows, `length` standing for every variable dimension. Optional inputs are left out. */
export function benignInputs(plan: ModelPlan, length: number, rows: readonly (0 | 1)[]): Tensor[] {
  return plan.inputs
    .filter(({ spec }) => !spec.optional)
    .map(({ spec }) => {
      const dims = spec.modelShape.slice(1).map((dim) => (dim === -1 ? length : dim));
      const data = Buffer.concat(rows.map((row) => benignRow(spec.datatype, elementCount(dims), row)));
      return { name: spec.name, datatype: spec.datatype, shape: [rows.length, ...dims], data: new Uint8Array(data) };
    });
}

/** One run that is stopped at the deadline. @throws InferError, CANCELLED for a run that was stopped */
export async function runUntil(
  plan: ModelPlan,
  instance: ModelInstance,
  inputs: readonly Tensor[],
  clock: Clock,
  deadlineMs: number,
): Promise<Tensor[]> {
  const started = instance.run(inputs, plan.outputNames);
  const cancelTimer = clock.setTimer(() => started.stop(), Math.max(1, deadlineMs - clock.now()));
  try {
    return await started.result;
  } finally {
    cancelTimer();
  }
}
