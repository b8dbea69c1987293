import type { BatchingReport, CompanyDifference, CurvePoint } from '../../../shared/infer/batching-report.ts';
import type { ModelStats } from '../../../shared/infer/model-stats.ts';
import { type BatchParameters, batchParametersOf } from '../../../shared/model/batch-parameters.ts';
import type { ReadyModel } from '../../../shared/model/ready-model.ts';
import type { Clock } from '../../../shared/runtime/clock.ts';
import type { Logger } from '../../../shared/runtime/logger.ts';
import type { ModelPlan } from '../batch/model-plan.ts';
import type { ModelInstance } from '../instance/instance.ts';
import type { BatchLimits } from '../schedule/batch-policy.ts';
import { BatchTuner, type Tuned } from '../schedule/batch-tuner.ts';
import { batchLimitsOf, type Batching } from '../schedule/create-scheduler.ts';
import { RunTimes } from '../schedule/run-times.ts';
import { companyPays, measureBatchCurve } from './batch-curve.ts';
import type { CompanyVerdict } from './judge-company.ts';

/** For all runs of a curve: that decides how many rows there may be, whether requests wait, or nothing. */
const AUTO_BUDGET_MS = 2000;
const DELAY_BUDGET_MS = 500;
const SHOWN_BUDGET_MS = 200;

/** The longest delay that is chosen where the config sets none. */
const MAX_AUTO_DELAY_MS = 50;

const GAINS_NOTHING = 'rows gain nothing from company, so requests do not wait for it';

/** One request, one run: requests are not merged, whatever rows they have. */
const ALONE: BatchLimits = { maxRows: 1, preferredRows: [], delayMs: 0 };

export interface BatchedModel {
  readonly ready: ReadyModel;
  readonly plan: ModelPlan;
  readonly instance: ModelInstance | undefined;
  /** Of its rows and their company. */
  readonly verdict: CompanyVerdict;
  /** See warm-sizes.ts. */
  readonly sizes: readonly number[] | undefined;
  readonly maxRows: number;
  readonly stats: ModelStats;
  readonly clock: Clock;
  readonly logger: Logger;
}

export interface PlannedBatches {
  /** Undefined where the config alone says what its scheduler does. */
  readonly batching: Batching | undefined;
  /** For the statistics, once the model serves. */
  readonly report: BatchingReport | undefined;
}

/**
 * What becomes of a model's requests, from its config and from what is measured: the batch curve, here, and the company
 * test, before. What is not as the config says is logged.
 */
export async function planBatches(model: BatchedModel): Promise<PlannedBatches> {
  const { ready, plan, instance, verdict, clock } = model;
  const parameters = batchParametersOf(ready.config);
  const { case: kind, value: choice } = ready.config.schedulingChoice;
  if (kind !== 'dynamicBatching') {
    const report = verdict.merges ? undefined : reportOf(ALONE, parameters, verdict);
    return { batching: undefined, report };
  }
  const config = batchLimitsOf(choice, model.maxRows);
  if (!verdict.merges || !instance || plan.maxRows < 2) {
    const limits = verdict.merges ? config : ALONE;
    return { batching: { limits }, report: withSizes(model, reportOf(limits, parameters, verdict)) };
  }
  const goal = parameters.goalMs !== undefined;
  const budgetMs = parameters.auto ? AUTO_BUDGET_MS : config.delayMs > 0 || goal ? DELAY_BUDGET_MS : SHOWN_BUDGET_MS;
  const curve = parameters.curve ? await measureBatchCurve(plan, instance, clock, budgetMs) : [];
  const limits = parameters.auto ? config : waiting(model, config, curve);
  if (parameters.auto || goal) return tuned(model, parameters, limits, curve);
  const reason = limits.delayMs < config.delayMs ? GAINS_NOTHING : '';
  return { batching: { limits }, report: withSizes(model, reportOf(limits, parameters, verdict, curve, reason)) };
}

/** The limits of the config, without the delay where a row in company costs what it costs alone. */
function waiting(
  { ready, plan, logger }: BatchedModel,
  config: BatchLimits,
  curve: readonly CurvePoint[],
): BatchLimits {
  if (config.delayMs === 0 || companyPays(curve, plan.maxRows)) return config;
  const fields = { model: ready.name, version: ready.version, curve: curveWords(curve) };
  logger.warn(fields, GAINS_NOTHING);
  return { ...config, delayMs: 0 };
}

function withSizes({ plan, sizes, maxRows }: BatchedModel, report: BatchingReport): BatchingReport {
  const short = maxRows < plan.maxRows && report.merges ? `larger runs than ${maxRows} rows find no memory` : '';
  const reason = [short, report.reason].filter((text) => text !== '').join('; ');
  return { ...report, reason, ...(sizes && { sizes }) };
}

function tuned(
  model: BatchedModel,
  parameters: BatchParameters,
  config: BatchLimits,
  curve: readonly CurvePoint[],
): PlannedBatches {
  const { ready, verdict, stats, clock, logger } = model;
  const { auto, goalMs } = parameters;
  const describe = ({ limits, reason }: Tuned): BatchingReport => {
    const { maxRows, delayMs } = limits;
    logger.info({ model: ready.name, version: ready.version, maxRows, delayMs, reason }, 'batches are tuned');
    return withSizes(model, reportOf(limits, parameters, verdict, curve, reason));
  };
  const tuner = new BatchTuner(
    {
      times: new RunTimes(curve.filter(({ ms }) => ms > 0)),
      config,
      auto,
      maxDelayMs: config.delayMs > 0 ? config.delayMs : MAX_AUTO_DELAY_MS,
      goalMs,
      onChange: (change) => {
        const next = describe(change);
        // While a version is replaced, the statistics are the new one's already.
        if (stats.batching === report) stats.batching = next;
        report = next;
      },
    },
    clock.now(),
  );
  let report = describe(tuner);
  return { batching: { limits: tuner.limits, tuner }, report };
}

function reportOf(
  { maxRows, delayMs }: BatchLimits,
  { auto, goalMs }: BatchParameters,
  { merges, reason, company }: { merges: boolean; reason: string; company: CompanyDifference | undefined },
  curve: readonly CurvePoint[] = [],
  chosenReason = '',
): BatchingReport {
  return { merges, maxRows, delayMs, auto, goalMs, reason: merges ? chosenReason : reason, curve, company };
}

/** `1: 10.2 ms, 2: 20.5 ms`, by rows. */
export function curveWords(curve: readonly CurvePoint[]): string {
  return curve.map(({ rows, ms }) => `${rows}: ${Number(ms.toPrecision(3))} ms`).join(', ');
}
