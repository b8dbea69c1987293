import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { InferError } from '../../../shared/errors.ts';
import { createReadyModel } from '../../../shared/model/create-ready-model.ts';
import type { Devices } from '../../../shared/model/devices.ts';
import { prepareModelConfig } from '../../../shared/model/prepare-config.ts';
import type { ModelFiles, ReadyModel } from '../../../shared/model/ready-model.ts';
import { sequenceBatchingOf } from '../../../shared/model/sequence-tensors.ts';
import { type ModelConfig, ModelInstanceGroup_Kind } from '../../../shared/proto/generated/model_config_pb.ts';
import type { Clock } from '../../../shared/runtime/clock.ts';
import type { Logger } from '../../../shared/runtime/logger.ts';
import type { ModelPlan } from '../batch/model-plan.ts';
import { createModelPlan } from '../batch/model-plan.ts';
import type { RateLimiter } from '../execute/rate-limiter.ts';
import type { RunGate } from '../execute/run-slots.ts';
import type { Backend, LoadedModel, ModelInstance } from '../instance/instance.ts';
import type { KeptOverLoads } from '../model-lifecycle.ts';
import { createScheduler } from '../schedule/create-scheduler.ts';
import type { DeadlineSweep } from '../schedule/deadline-sweep.ts';
import { planSequences } from '../sequence/plan-sequences.ts';
import { createSequencePlan } from '../sequence/sequence-plan.ts';
import { SequenceScheduler } from '../sequence/sequence-scheduler.ts';
import { type ServedModel, serveModel } from '../served-model.ts';
import { watchIdentity } from './content-identity.ts';
import { createInstances, type Instances } from './instances.ts';
import { type CompanyVerdict, judgeCompany } from './judge-company.ts';
import { loadOptionsOf } from './load-options.ts';
import { planBatches } from './plan-batches.ts';
import { planPadding } from './plan-padding.ts';
import { readLabels } from './read-labels.ts';
import type { ModelSource } from './read-model-folder.ts';
import { warmSizes } from './warm-sizes.ts';
import { warmUp } from './warm-up.ts';

/** What loading takes from the engine. */
export interface LoadContext {
  readonly backend: Backend;
  /** Whether the version replaces one that serves: nobody waits for it, so it gives way to requests. Default false. */
  readonly inBackground?: boolean;
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
  { stats, sequences: siblings }: KeptOverLoads,
  context: LoadContext,
): Promise<ServedModel> {
  const startedMs = context.clock.now();
  const path = await modelFile(source, version);
  const keepsAnswers = context.identities && source.config.responseCache?.enable === true;
  const identify = keepsAnswers ? await watchIdentity(source.path, version) : undefined;
  const devices = await context.backend.devices?.();
  const loadOptions = await loadOptionsOf(source.config, source.path, path, devices);
  const loaded = await context.backend.load(loadOptions, context.inBackground);
  let created: Instances | undefined;
  try {
    const { autoComplete, defaultMaxBatchSize } = context;
    const config = prepareModelConfig(source.config, loaded, autoComplete, defaultMaxBatchSize, devices);
    const onCpu = cpuRemarkOf(source.config, loaded, devices);
    if (onCpu !== '') context.logger.warn({ model: source.name, version, reason: onCpu }, 'model runs on the CPU');
    const gpus = [...new Set(config.instanceGroup.flatMap((group) => group.gpus))];
    if (gpus.length > 0) context.logger.info({ model: source.name, version, gpus }, 'model runs on GPUs');
    const labels = await readLabels(config, source.path);
    const identity = await identify?.(config);
    const ready = createReadyModel({ config, version, versions: source.versions, labels, files, identity });
    const group = (created = await createInstances(config, loaded, context.limiter));
    const { active: instances, gates } = group;
    const { plan: unpadded, verdict } = await planModel(ready, path, instances, context);
    const plan = await planPadding(unpadded, verdict.merges, ready, instances, context);
    await warmUp({ config, plan, path: source.path, instances, clock: context.clock, logger: context.logger });
    const { sizes, maxRows } = await warmSizes({ ...context, ready, plan, merges: verdict.merges, loaded, instances });
    const options = { ...context, plan, instances, gates, stats };
    const sized = { ready, plan, instance: instances[0], verdict, stats, sizes, maxRows };
    const batches = await planBatches({ ...context, ...sized });
    const sequences = await planSequences(ready, source.path, plan);
    const scheduler = sequences
      ? new SequenceScheduler({ ...options, ...sequences, version, siblings })
      : createScheduler(ready.config, { ...options, sizes }, batches.batching);
    loaded.startServing?.();
    stats.batching = batches.report;
    stats.memoryRows = undefined;
    stats.loadSeconds = (context.clock.now() - startedMs) / 1000;
    return serveModel({
      ready,
      scheduler,
      stats,
      remark: onCpu || gpuRemarkOf(source.config, gpus),
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

/** What of the model runs on the CPU where GPU support is installed, and why; '' for what was asked for. */
function cpuRemarkOf(config: ModelConfig, loaded: LoadedModel, devices: Devices | undefined): string {
  if (loaded.remark) return loaded.remark;
  if (!devices?.installed || devices.gpus.length > 0 || !takesAnyDevice(config)) return '';
  return `the model runs on the CPU, as no GPU works: ${devices.reason}`;
}

/** What a model that may run anywhere has got; '' where it was asked for, or without a GPU. */
function gpuRemarkOf(config: ModelConfig, gpus: readonly number[]): string {
  if (gpus.length === 0 || !takesAnyDevice(config)) return '';
  return `KIND_AUTO took ${gpus.map((gpu) => `gpu:${gpu}`).join(', ')}`;
}

function takesAnyDevice({ instanceGroup }: ModelConfig): boolean {
  return instanceGroup.length === 0 || instanceGroup.some(({ kind }) => kind === ModelInstanceGroup_Kind.AUTO);
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

/** Finds out whether rows may be merged, and limits the model to one at a time when not even those of one request may. */
async function planModel(
  ready: ReadyModel,
  path: string,
  [instance]: readonly ModelInstance[],
  { clock, logger }: LoadContext,
): Promise<{ plan: ModelPlan; verdict: CompanyVerdict }> {
  const plan = planOfRun(ready);
  const verdict = await judgeCompany({ ready, plan, path, instance, clock, logger });
  return { plan: verdict.oneRow ? planOfRun(ready, verdict.reason) : plan, verdict };
}

/** What a run takes, which for a sequence model is more than clients send. */
function planOfRun(ready: ReadyModel, oneRowReason = ''): ModelPlan {
  return sequenceBatchingOf(ready.config)
    ? createSequencePlan(ready, oneRowReason).run
    : createModelPlan(ready, oneRowReason);
}
