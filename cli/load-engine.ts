import { InferError } from '../shared/errors.ts';
import type { ModelState } from '../shared/infer/ports.ts';
import type { Logger } from '../shared/runtime/logger.ts';
import { createBindingBackend } from '../worker/engine/backend/onnx/binding/binding-backend.ts';
import { createCApiBackend } from '../worker/engine/backend/onnx/c-api/c-api-backend.ts';
import type { GlobalThreads } from '../worker/engine/backend/onnx/c-api/api.ts';
import type { GpuFolder } from '../worker/engine/backend/onnx/gpu/gpu-folder.ts';
import { createEngine } from '../worker/engine/create-engine.ts';
import type { Engine } from '../worker/engine/engine.ts';
import type { Backend } from '../worker/engine/instance/instance.ts';
import { parseBackendConfig } from './backend-config.ts';
import type { Settings } from './flags/catalogue.ts';
import { findGpuFolder } from './gpu-dir.ts';
import { RESERVED_THREADS } from './launch.ts';
import { parseRateLimits } from './rate-limits.ts';

/** libuv's own default, where nothing sets it. */
const DEFAULT_POOL_SIZE = 4;

/** The name of a file, not a path: it is looked up in each model's folder. */
const CONFIG_NAME = /^[\w.-]+$/;

/**
 * Loads the models of the repositories.
 * @param identities whether models with `response_cache` get an identity, as somebody keeps their answers
 * @throws InferError when there is no repository, or, with --exit-on-error, naming each model that cannot be loaded.
 */
export async function loadEngine(
  settings: Settings<'serve'> | Settings<'worker'>,
  logger: Logger,
  identities: boolean,
): Promise<Engine> {
  if (settings.modelRepository.length === 0) {
    throw new InferError('INVALID_ARGUMENT', 'no models: --model-repository=DIR names a folder of model folders');
  }
  const { modelControlMode, loadModel, modelConfigName: configName } = settings;
  if (loadModel.length > 0 && modelControlMode !== 'explicit') {
    const mode = `the mode is ${modelControlMode}, which loads all models`;
    throw new InferError('INVALID_ARGUMENT', `--load-model goes with --model-control-mode=explicit; ${mode}`);
  }
  if (settings.loadOnDemand && modelControlMode !== 'explicit') {
    const mode = `the mode is ${modelControlMode}, which loads all models`;
    throw new InferError('INVALID_ARGUMENT', `--load-on-demand goes with --model-control-mode=explicit; ${mode}`);
  }
  if (configName !== undefined && (!CONFIG_NAME.test(configName) || configName.startsWith('.'))) {
    const expected = 'the name of a file in configs, without .pbtxt';
    throw new InferError('INVALID_ARGUMENT', `--model-config-name expects ${expected}, got "${configName}"`);
  }
  const { defaultMaxBatchSize, globalThreads } = parseBackendConfig(settings.backendConfig);
  const rateLimits = parseRateLimits(settings.rateLimit, settings.rateLimitResource);
  const pool = Number(process.env['UV_THREADPOOL_SIZE'] ?? DEFAULT_POOL_SIZE);
  const engine = await createEngine({
    repositories: settings.modelRepository,
    backend: createBackend(settings.onnxruntimeApi, globalThreads, findGpuFolder(settings.gpuDir)),
    logger,
    maxQueueSize: settings.maxQueueSize,
    instanceSlots: Math.max(1, pool - RESERVED_THREADS),
    controlMode: modelControlMode,
    loadAtStart: loadModel,
    onDemand: settings.loadOnDemand,
    budgetBytes: settings.modelMemoryBytes === 0 ? Infinity : settings.modelMemoryBytes,
    pollMs: settings.repositoryPollSecs * 1000,
    identities,
    ...(rateLimits && { rateLimits }),
    ...(defaultMaxBatchSize !== undefined && { defaultMaxBatchSize }),
    autoComplete: !settings.disableAutoCompleteConfig && !settings.strictModelConfig,
    ...(configName !== undefined && { configName }),
  });
  const states = engine.catalog.list();
  if (states.length === 0 && modelControlMode === 'none') {
    await engine.close(0);
    throw new InferError('NOT_FOUND', `no model folder in ${settings.modelRepository.join(', ')}`);
  }
  const broken = states.filter(({ state }) => state !== 'READY' && state !== 'UNKNOWN');
  if (broken.length > 0 && settings.exitOnError) {
    await engine.close(0);
    throw new InferError('UNAVAILABLE', `${broken.map(explain).join('\n')}\n(--exit-on-error=false serves the others)`);
  }
  return engine;
}

function createBackend(
  api: 'c' | 'binding',
  globalThreads: GlobalThreads | undefined,
  gpu: GpuFolder | undefined,
): Backend {
  if (api === 'c') return createCApiBackend(globalThreads, gpu);
  if (!globalThreads) return createBindingBackend(gpu);
  const text = '--backend-config: enable-global-threadpool=1 goes with --onnxruntime-api=c, not with binding';
  throw new InferError('INVALID_ARGUMENT', text);
}

function explain({ name, version, reason }: ModelState): string {
  const which = version === undefined ? name : `${name} version ${version}`;
  return `model ${which} cannot be loaded: ${reason}`;
}
