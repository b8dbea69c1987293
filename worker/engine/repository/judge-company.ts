import type { CompanyDifference } from '../../../shared/infer/batching-report.ts';
import { batchParametersOf } from '../../../shared/model/batch-parameters.ts';
import type { ReadyModel } from '../../../shared/model/ready-model.ts';
import { sequenceBatchingOf } from '../../../shared/model/sequence-tensors.ts';
import type { Clock } from '../../../shared/runtime/clock.ts';
import type { Logger } from '../../../shared/runtime/logger.ts';
import type { ModelPlan } from '../batch/model-plan.ts';
import type { ModelInstance } from '../instance/instance.ts';
import { testCompany } from './company-test.ts';
import { countQuantisingOps } from './quantising-ops.ts';
import { testBatchDimension } from './self-test.ts';

/** Whether rows of different requests may share a run. */
export interface CompanyVerdict {
  readonly merges: boolean;
  /** Not even the rows of one request may: the model takes one row at a time. */
  readonly oneRow: boolean;
  /** Why not; '' where they may. */
  readonly reason: string;
  /** Undefined where it was not measured. */
  readonly company: CompanyDifference | undefined;
}

export interface JudgedModel {
  readonly ready: ReadyModel;
  readonly plan: ModelPlan;
  /** Path of the model file. */
  readonly path: string;
  readonly instance: ModelInstance | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * Tries whether rows stand for themselves. Where the batch dimension is not real, one row at a time is all that the model
 * can do. Where the answer for a row moves with its company by more than `batch_tolerance`, requests are not merged; the
 * rows that a client sends together it has put together itself. A warning says which and why.
 */
export async function judgeCompany(model: JudgedModel): Promise<CompanyVerdict> {
  const { ready, plan, instance, clock, logger } = model;
  if (ready.maxBatchSize < 2 || !instance) return may();
  const test = await testBatchDimension(plan, instance, clock);
  const fields = { model: ready.name, version: ready.version };
  if (test.kind === 'unknown') logger.debug({ ...fields, reason: test.reason }, 'batch dimension not tested');
  if (test.kind === 'broken') {
    logger.warn({ ...fields, reason: test.reason }, 'model cannot batch, it takes one row at a time');
    return { merges: false, oneRow: true, reason: `the model cannot batch: ${test.reason}`, company: undefined };
  }
  const merging = ready.config.schedulingChoice.case === 'dynamicBatching' || sequenceBatchingOf(ready.config);
  return merging ? await judgeNumbers(model, instance) : may();
}

async function judgeNumbers(
  { ready, plan, path, clock, logger }: JudgedModel,
  instance: ModelInstance,
): Promise<CompanyVerdict> {
  const { tolerance } = batchParametersOf(ready.config);
  const fields = { model: ready.name, version: ready.version };
  const test = await testCompany(plan, instance, clock, tolerance);
  const measured = test.kind === 'measured' ? { ...test.difference, tolerance } : undefined;
  if (measured && measured.relative === 0) return may(measured);
  const operators = await countQuantisingOps(path);
  const quantised =
    operators > 0 ? `; it has ${operators} operators that quantise with one scale for the whole batch` : '';
  if (measured && measured.relative <= tolerance) {
    logger.debug({ ...fields, ...measured, operators }, 'rows stand for themselves');
    return may(measured);
  }
  const accepted = ready.config.parameters.batch_tolerance !== undefined;
  if (!measured && (operators === 0 || accepted)) {
    const reason = test.kind === 'unknown' ? test.reason : '';
    logger.debug({ ...fields, reason }, 'company of rows not tested');
    return may();
  }
  const reason = measured
    ? `the answer for a row depends on the rows beside it: ${differenceWords(measured)}${quantised}`
    : `the answer for a row may depend on the rows beside it, which could not be measured${quantised}`;
  logger.warn({ ...fields, reason }, 'requests are not merged');
  return { merges: false, oneRow: sequenceBatchingOf(ready.config) !== undefined, reason, company: measured };
}

/** The figures that a person needs to set `batch_tolerance`. */
export function differenceWords({ relative, maxAbs, cosine, tolerance }: CompanyDifference): string {
  const figure = (value: number) => Number(value.toPrecision(3));
  const about = `up to ${figure(relative)} of its size (cosine ${cosine.toFixed(4)}, ${figure(maxAbs)} in one number)`;
  return `${about}, batch_tolerance is ${tolerance}`;
}

function may(company?: CompanyDifference): CompanyVerdict {
  return { merges: true, oneRow: false, reason: '', company };
}
