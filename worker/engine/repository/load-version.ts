import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { InferError } from '../../../shared/errors.ts';
import type { ModelStats } from '../../../shared/infer/model-stats.ts';
import { createReadyModel } from '../../../shared/model/create-ready-model.ts';
import { prepareModelConfig } from '../../../shared/model/prepare-config.ts';
import type { ModelFiles, ReadyModel } from '../../../shared/model/ready-model.ts';
import { sequenceBatchingOf } from '../../../shared/model/sequence-tensors.ts';
import type { Clock } from '../../../shared/runtime/clock.ts';
import type { Logger } from '../../../shared/runtime/logger.ts';
import type { ModelPlan } from '../batch/model-plan.ts';
import { createModelPlan } from '../batch/model-plan.ts';
import type { RateLimiter } from '../execute/rate-limiter.ts';
import type { RunGate } from '../execute/run-slots.ts';
import type { Backend, ModelInstance } from '../instance/instance.ts';
import { createScheduler } from '../schedule/create-scheduler.ts';
import type { DeadlineSweep } from '../schedule/deadline-sweep.ts';
import { planSequences } from '../sequence/plan-sequences.ts';
import { createSequencePlan } from '../sequence/sequence-plan.ts';
import { SequenceScheduler } from '../sequence/sequence-scheduler.ts';
import { type ServedModel, serveModel } from '../served-model.ts';
import { companyPays, measureBatchCurve } from './batch-curve.ts';
import { watchIdentity } from './content-identity.ts';
import { createInstances, type Instances } from './instances.ts';
import { loadOptionsOf } from './load-options.ts';
import { readLabels } from './read-labels.ts';
import type { ModelSource } from './read-model-folder.ts';
import { testBatchDimension } from './self-test.ts';
import { warmUp } from './warm-up.ts';

/** A key of `parameters` in the config: `off` keeps the delay whatever the model gains. */
const BATCH_CURVE = 'batch_curve';

/** What loading takes from the engine. */
export interface LoadContext {
  readonly backend: Backend;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly slots: RunGate;
  /** Undefined where runs are not limited by instance. */
  readonly limiter: RateLimiter | undefined;
  readonly deadlines: DeadlineSweep;
  /** Most requests that may wait for one model version. */
  readonly maxQueueSize: number;
  /** Whether what a config leaves out is completed from the model file. */
  readonly autoComplete: boolean;
  /** What completion sets for a model that can batch. */
  readonly defaultMaxBatchSize: number;
  /** Whether models with `response_cache` get an identity, which somebody keeps their answers by. */
  readonly identities: boolean;
}

/** @throws InferError with the reason why the version cannot be served; nothing of it stays behind. */
export async function loadVersion(
  source: ModelSource,
  version: string,
  files: ModelFiles,
  stats: ModelStats,
  context: LoadContext,
): Promise<ServedModel> {
  const startedMs = context.clock.now();
  const path = await modelFile(source, version);
  const keepsAnswers = context.identities && source.config.responseCache?.enable === true;
  const identify = keepsAnswers ? await watchIdentity(source.path, version) : undefined;
  const loaded = await context.backend.load(await loadOptionsOf(source.config, source.path, path));
  let created: Instances | undefined;
  try {
    const config = prepareModelConfig(source.config, loaded, context.autoComplete, context.defaultMaxBatchSize);
    const labels = await readLabels(config, source.path);
    const identity = await identify?.(config);
    const ready = createReadyModel({ config, version, versions: source.versions, labels, files, identity });
    const group = (created = await createInstances(config, loaded, context.limiter));
    const { active: instances, gates } = group;
    const plan = await planModel(ready, instances, context);
    await warmUp({ config, plan, path: source.path, instances, clock: context.clock, logger: context.logger });
    const options = { ...context, plan, instances, gates, stats };
    const sequences = await planSequences(ready, source.path, plan);
    const scheduler = sequences
      ? new SequenceScheduler({ ...options, ...sequences })
      : createScheduler(ready.config, { ...options, waits: await waitsForCompany(ready, plan, instances, context) });
    stats.loadSeconds = (context.clock.now() - startedMs) / 1000;
    return serveModel({
      ready,
      scheduler,
      stats,
      clock: context.clock,
      async release() {
        await group.release();
        await loaded.close();
      },
    });
  } catch (error) {
    await created?.closeAll();
    await loaded.close();
    throw error;
  }
}

/** The file, or in the way of large exports a folder of that name with the file in it. */
export async function modelFile({ config, path, name }: ModelSource, version: string): Promise<string> {
  const filename = config.defaultModelFilename;
  for (const candidate of [join(path, version, filename), join(path, version, filename, 'model.onnx')]) {
    const stats = await stat(candidate).catch(() => undefined); // not there: the text below says so
    if (stats?.isFile()) return candidate;
  }
  throw new InferError('NOT_FOUND', `model "${name}": version ${version} has no file "${filename}"`);
}

/** Finds out whether rows may be merged, and limits the model to one at a time when not. */
async function planModel(
  ready: ReadyModel,
  instances: readonly ModelInstance[],
  { clock, logger }: LoadContext,
): Promise<ModelPlan> {
  const plan = planOfRun(ready);
  const instance = instances[0];
  if (ready.maxBatchSize < 2 || !instance) return plan;
  const test = await testBatchDimension(plan, instance, clock);
  const fields = { model: ready.name, version: ready.version };
  if (test.kind === 'unknown') logger.debug({ ...fields, reason: test.reason }, 'batch dimension not tested');
  if (test.kind !== 'broken') return plan;
  logger.warn({ ...fields, reason: test.reason }, 'model cannot batch, it takes one row at a time');
  return planOfRun(ready, `the model cannot batch: ${test.reason}`);
}

/** Whether the delay of the config is kept: where a row in company costs what it costs alone, waiting only costs time. */
async function waitsForCompany(
  { name, version, config }: ReadyModel,
  plan: ModelPlan,
  [instance]: readonly ModelInstance[],
  { clock, logger }: LoadContext,
): Promise<boolean> {
  const { case: kind, value: batching } = config.schedulingChoice;
  const mayWait = kind === 'dynamicBatching' && batching.maxQueueDelayMicroseconds > 0n && plan.maxRows > 1;
  if (!instance || !mayWait || config.parameters[BATCH_CURVE]?.stringValue === 'off') return true;
  const curve = await measureBatchCurve(plan, instance, clock);
  if (companyPays(curve, plan.maxRows)) return true;
  logger.warn({ model: name, version, curve }, 'rows gain nothing from company, so requests do not wait for it');
  return false;
}

/** What a run takes, which for a sequence model is more than clients send. */
function planOfRun(ready: ReadyModel, oneRowReason = ''): ModelPlan {
  return sequenceBatchingOf(ready.config)
    ? createSequencePlan(ready, oneRowReason).run
    : createModelPlan(ready, oneRowReason);
}
