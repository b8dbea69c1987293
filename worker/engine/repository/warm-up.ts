import { InferError } from '../../../shared/errors.ts';
import { warmupLabel } from '../../../shared/model/warmup-problems.ts';
import type { ModelConfig } from '../../../shared/proto/generated/model_config_pb.ts';
import type { Clock } from '../../../shared/runtime/clock.ts';
import type { Logger } from '../../../shared/runtime/logger.ts';
import type { Tensor } from '../../../shared/tensor/tensor.ts';
import { elementCount } from '../../../shared/tensor/tensor.ts';
import type { ModelPlan } from '../batch/model-plan.ts';
import type { ModelInstance } from '../instance/instance.ts';
import { benignRow } from './benign-rows.ts';
import { readWarmupInputs, type WarmupModel } from './warmup-data.ts';

/** For one run of an entry. */
const MAX_RUN_MS = 600_000;

/** For one run of a model that asks for none. */
const MAX_FIRST_RUN_MS = 5000;

/** A larger first run costs more than it is worth. */
const MAX_FIRST_ROW_BYTES = 16 * 1024 * 1024;

/** What stands for a variable dimension in it. */
const FIRST_RUN_LENGTH = 4;

export interface WarmUp extends WarmupModel {
  readonly config: ModelConfig;
  /** Those that requests run on. */
  readonly instances: readonly ModelInstance[];
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * Runs every entry of `model_warmup` on every instance, one run after the other. Without entries each instance runs one
 * made-up row where the model takes it. Nothing of this is counted as an inference.
 * @throws InferError with the name of the entry, and for what it is
 */
export async function warmUp(model: WarmUp): Promise<void> {
  if (model.config.modelWarmup.length === 0) await runOnce(model);
  for (const [index, entry] of model.config.modelWarmup.entries()) {
    const label = warmupLabel(entry, index);
    try {
      const inputs = await readWarmupInputs(entry, model);
      for (const instance of model.instances) {
        for (let i = Math.max(1, entry.count); i > 0; i -= 1) await run(model, instance, inputs, MAX_RUN_MS);
      }
    } catch (error) {
      const { code, message, cause } = InferError.from(error, 'it could not be run');
      throw new InferError(code, `model "${model.plan.model}": ${label}: ${message}`, { cause });
    }
    model.logger.debug({ model: model.plan.model, entry: label, instances: model.instances.length }, 'warmed up');
  }
}

/**
 * With ONNX Runtime's C API the first run of a session takes up to four times as long as later ones, with the binding that
 * of each instance, up to thirty times: a run at load instead of a slow first request. What fails here says nothing.
 */
async function runOnce(model: WarmUp): Promise<void> {
  const inputs = firstRunInputs(model.plan);
  if (!inputs) return;
  for (const instance of model.instances) {
    try {
      await run(model, instance, inputs, MAX_FIRST_RUN_MS);
    } catch (error) {
      const reason = InferError.from(error).message;
      model.logger.debug({ model: model.plan.model, reason }, 'model does not take made-up input, not warmed up');
      return;
    }
  }
}

function firstRunInputs({ inputs, batched }: ModelPlan): Tensor[] | undefined {
  const tensors: Tensor[] = [];
  for (const { spec } of inputs) {
    if (spec.optional) continue;
    const shape = spec.modelShape.map((dim, axis) => (dim !== -1 ? dim : batched && axis === 0 ? 1 : FIRST_RUN_LENGTH));
    if (elementCount(shape) * 8 > MAX_FIRST_ROW_BYTES) return undefined;
    tensors.push({
      name: spec.name,
      datatype: spec.datatype,
      shape,
      data: benignRow(spec.datatype, elementCount(shape), 0),
    });
  }
  return tensors;
}

async function run(
  { plan, clock }: WarmUp,
  instance: ModelInstance,
  inputs: readonly Tensor[],
  maxMs: number,
): Promise<void> {
  const started = instance.run(inputs, plan.outputNames);
  const cancelTimer = clock.setTimer(() => started.stop(), maxMs);
  try {
    await started.result;
  } finally {
    cancelTimer();
  }
}
