import { InferError } from '../../../shared/errors.ts';
import { batchParametersOf } from '../../../shared/model/batch-parameters.ts';
import type { ReadyModel } from '../../../shared/model/ready-model.ts';
import { sequenceBatchingOf } from '../../../shared/model/sequence-tensors.ts';
import type { Clock } from '../../../shared/runtime/clock.ts';
import type { Logger } from '../../../shared/runtime/logger.ts';
import type { ModelPlan } from '../batch/model-plan.ts';
import type { LoadedModel, ModelInstance } from '../instance/instance.ts';
import { powersUpTo } from '../schedule/batch-sizes.ts';
import { benignInputs, lengthsToTry, runUntil } from './benign-run.ts';

/** For all runs of an instance: the search of a large convolution takes its time, and a load must end. */
const SEARCH_MS = 300_000;

/** Where only the memory is in question. */
const MEMORY_MS = 10_000;

export interface SizedModel {
  readonly ready: ReadyModel;
  readonly plan: ModelPlan;
  /** Whether requests may share a run: rows that move with their company are not given any. */
  readonly merges: boolean;
  readonly loaded: LoadedModel;
  readonly instances: readonly ModelInstance[];
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Which runs a model is given. */
export interface RunSizes {
  /** Rows that a run may have, ascending; undefined for any. */
  readonly sizes: readonly number[] | undefined;
  /** Most rows for which there is memory, as far as that was tried. */
  readonly maxRows: number;
}

/**
 * Runs each size that runs will have on each instance: with `batch_sizes`, and by itself for a convolution on a GPU. On
 * GPUs it is tried so, too, up to how many rows there is memory for.
 * @throws InferError RESOURCE_EXHAUSTED when there is none for one row
 */
export async function warmSizes(model: SizedModel): Promise<RunSizes> {
  const { ready, plan, loaded, instances, logger } = model;
  const any: RunSizes = { sizes: undefined, maxRows: plan.maxRows };
  if (!plan.batched || sequenceBatchingOf(ready.config)) return any;
  const sizes = sizesOf(model);
  const onGpu = loaded.gpu !== undefined;
  if (!sizes && !onGpu) return any;
  const tried = sizes ?? powersUpTo(plan.maxRows);
  let maxRows = plan.maxRows;
  for (const instance of instances) {
    const rows = await warmInstance(model, instance, tried, sizes ? SEARCH_MS : MEMORY_MS);
    maxRows = Math.min(maxRows, rows);
  }
  const fields = { model: ready.name, version: ready.version };
  if (maxRows < plan.maxRows) logger.warn({ ...fields, maxRows }, 'larger runs find no memory, batches are smaller');
  for (const use of loaded.gpu?.memory() ?? [])
    logger.info({ ...fields, ...use, maxRows }, 'memory of a GPU after the load');
  return { sizes: sizes?.filter((rows) => rows <= maxRows), maxRows };
}

function sizesOf({ ready, plan, merges, loaded }: SizedModel): readonly number[] | undefined {
  const { sizes } = batchParametersOf(ready.config);
  if (!merges || sizes === 'any') return undefined;
  if (sizes === 'powers' || (sizes === undefined && loaded.gpu?.fewSizes)) return powersUpTo(plan.maxRows);
  if (sizes === undefined) return undefined;
  const within = sizes.filter((rows) => rows < plan.maxRows);
  return [...within, plan.maxRows]; // a request may have so many
}

/** Returns the most rows that found memory; all of them where made-up input is not taken, or the time is up. */
async function warmInstance(
  { plan, clock, logger }: SizedModel,
  instance: ModelInstance,
  sizes: readonly number[],
  budgetMs: number,
): Promise<number> {
  const deadlineMs = clock.now() + budgetMs;
  for (const length of lengthsToTry(plan)) {
    let fitting = 0;
    try {
      for (const rows of sizes) {
        if (clock.now() >= deadlineMs) return plan.maxRows;
        await runUntil(plan, instance, benignInputs(plan, length, Array<0>(rows).fill(0)), clock, deadlineMs);
        fitting = rows;
      }
      return plan.maxRows;
    } catch (error) {
      const { code, message } = InferError.from(error);
      if (code === 'RESOURCE_EXHAUSTED' && fitting > 0) return fitting;
      if (code === 'RESOURCE_EXHAUSTED') throw error;
      logger.debug({ model: plan.model, reason: message }, 'sizes of runs not warmed up');
      if (code === 'CANCELLED') return plan.maxRows; // the time is up
    }
  }
  return plan.maxRows;
}
