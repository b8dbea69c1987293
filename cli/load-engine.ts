import { InferError } from '../shared/errors.ts';
import type { ModelState } from '../shared/infer/ports.ts';
import type { Logger } from '../shared/runtime/logger.ts';
import { createBindingBackend } from '../worker/engine/backend/onnx/binding/binding-backend.ts';
import { createCApiBackend } from '../worker/engine/backend/onnx/c-api/c-api-backend.ts';
import { createEngine } from '../worker/engine/create-engine.ts';
import type { Engine } from '../worker/engine/engine.ts';
import type { Settings } from './flags/catalogue.ts';
import { RESERVED_THREADS } from './launch.ts';

/** libuv's own default, where nothing sets it. */
const DEFAULT_POOL_SIZE = 4;

/**
 * Loads the models of the repositories.
 * @throws InferError when there is no repository, or, with --exit-on-error, naming each model that cannot be loaded.
 */
export async function loadEngine(settings: Settings<'serve'> | Settings<'worker'>, logger: Logger): Promise<Engine> {
  if (settings.modelRepository.length === 0) {
    throw new InferError('INVALID_ARGUMENT', 'no models: --model-repository=DIR names a folder of model folders');
  }
  const pool = Number(process.env['UV_THREADPOOL_SIZE'] ?? DEFAULT_POOL_SIZE);
  const engine = await createEngine({
    repositories: settings.modelRepository,
    backend: settings.onnxruntimeApi === 'binding' ? createBindingBackend() : createCApiBackend(),
    logger,
    maxQueueSize: settings.maxQueueSize,
    instanceSlots: Math.max(1, pool - RESERVED_THREADS),
  });
  const states = engine.catalog.list();
  if (states.length === 0) {
    await engine.close(0);
    throw new InferError('NOT_FOUND', `no model folder in ${settings.modelRepository.join(', ')}`);
  }
  const broken = states.filter((state) => state.state !== 'READY');
  if (broken.length > 0 && settings.exitOnError) {
    await engine.close(0);
    throw new InferError('UNAVAILABLE', `${broken.map(explain).join('\n')}\n(--exit-on-error=false serves the others)`);
  }
  return engine;
}

function explain({ name, version, reason }: ModelState): string {
  const which = version === undefined ? name : `${name} version ${version}`;
  return `model ${which} cannot be loaded: ${reason}`;
}
