import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { InferError } from '../../../shared/errors.ts';
import type { ModelStats } from '../../../shared/infer/model-stats.ts';
import { createReadyModel } from '../../../shared/model/create-ready-model.ts';
import { countInstances } from '../../../shared/model/normalise-config.ts';
import { sessionOptionsOf } from '../../../shared/model/ort-options.ts';
import { prepareModelConfig } from '../../../shared/model/prepare-config.ts';
import type { ModelFiles, ReadyModel } from '../../../shared/model/ready-model.ts';
import type { Clock } from '../../../shared/runtime/clock.ts';
import type { Logger } from '../../../shared/runtime/logger.ts';
import type { ModelPlan } from '../batch/model-plan.ts';
import { createModelPlan } from '../batch/model-plan.ts';
import type { RunSlots } from '../execute/run-slots.ts';
import type { Backend, ModelInstance } from '../instance/instance.ts';
import { createScheduler } from '../schedule/create-scheduler.ts';
import type { DeadlineSweep } from '../schedule/deadline-sweep.ts';
import { type ServedModel, serveModel } from '../served-model.ts';
import { watchIdentity } from './content-identity.ts';
import { readLabels } from './read-labels.ts';
import type { ModelSource } from './read-model-folder.ts';
import { testBatchDimension } from './self-test.ts';

/** What loading takes from the engine. */
export interface LoadContext {
  readonly backend: Backend;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly slots: RunSlots;
  readonly deadlines: DeadlineSweep;
  /** Most requests that may wait for one model version. */
  readonly maxQueueSize: number;
  /** Whether what a config leaves out is completed from the model file. */
  readonly autoComplete: boolean;
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
  const loaded = await context.backend.load({ path, ...sessionOptionsOf(source.config) });
  const instances: ModelInstance[] = [];
  try {
    const config = prepareModelConfig(source.config, loaded, context.autoComplete);
    const labels = await readLabels(config, source.path);
    const identity = await identify?.(config);
    const ready = createReadyModel({ config, version, versions: source.versions, labels, files, identity });
    for (let i = countInstances(config); i > 0; i -= 1) instances.push(await loaded.createInstance());
    const plan = await planModel(ready, instances, context);
    const scheduler = createScheduler(ready.config, { ...context, plan, instances, stats });
    stats.loadSeconds = (context.clock.now() - startedMs) / 1000;
    return serveModel({ ready, scheduler, stats, clock: context.clock, release: () => loaded.close() });
  } catch (error) {
    await Promise.all(instances.map((instance) => instance.close()));
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
  const plan = createModelPlan(ready);
  const instance = instances[0];
  if (ready.maxBatchSize < 2 || !instance) return plan;
  const test = await testBatchDimension(plan, instance, clock);
  const fields = { model: ready.name, version: ready.version };
  if (test.kind === 'unknown') logger.debug({ ...fields, reason: test.reason }, 'batch dimension not tested');
  if (test.kind !== 'broken') return plan;
  logger.warn({ ...fields, reason: test.reason }, 'model cannot batch, it takes one row at a time');
  return createModelPlan(ready, `the model cannot batch: ${test.reason}`);
}
