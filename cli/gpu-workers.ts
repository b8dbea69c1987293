import { InferError } from '../shared/errors.ts';
import type { GpuFolder } from '../worker/engine/backend/onnx/gpu/gpu-folder.ts';
import type { Settings } from './flags/catalogue.ts';
import { launchedEnvironment } from './launch.ts';
import { loggerOf } from './logger.ts';
import { onEndSignal } from './shutdown.ts';
import { type Member, WorkerGroup } from './worker-group.ts';

const MAX_PORT = 65_535;

/**
 * `millrace worker --gpus=…`: one worker process for each GPU that is named, which sees that one alone. Signals are passed
 * on. Resolves with the exit code when all of them have left.
 * @param args of the command, as they were given
 * @throws InferError where GPU support is not installed, or the ports do not suffice
 */
export async function gpuWorkers(
  gpus: readonly string[],
  args: readonly string[],
  settings: Settings<'worker'>,
  folder: GpuFolder | undefined,
): Promise<number> {
  if (!folder) throw new InferError('UNAVAILABLE', '--gpus: no GPU support is installed: millrace gpu install');
  const members = membersOf(gpus, args, settings, launchedEnvironment(folder));
  const group = new WorkerGroup(members, loggerOf(settings));
  onEndSignal((signal) => group.stop(signal));
  return group.run();
}

/** Each with a metrics port of its own, counted up from the one that was asked for; 0 stays 0, which is any. */
export function membersOf(
  gpus: readonly string[],
  args: readonly string[],
  { metricsPort, allowMetrics }: Pick<Settings<'worker'>, 'metricsPort' | 'allowMetrics'>,
  env: NodeJS.ProcessEnv,
): Member[] {
  const last = metricsPort === 0 ? 0 : metricsPort + gpus.length - 1;
  if (allowMetrics && last > MAX_PORT) {
    const text = `--metrics-port=${metricsPort}: each of ${gpus.length} processes takes the next one, up to ${last}`;
    throw new InferError('INVALID_ARGUMENT', `${text}; expected at most ${MAX_PORT}`);
  }
  return gpus.map((gpu, index) => {
    const port = metricsPort === 0 ? 0 : Math.min(MAX_PORT, metricsPort + index);
    const own = ['--gpus=off', `--metrics-port=${port}`]; // the last of an option counts
    return {
      name: `GPU ${gpu}`,
      command: [process.execPath, ...process.execArgv, process.argv[1] ?? '', 'worker', ...args, ...own],
      env: { ...env, CUDA_VISIBLE_DEVICES: gpu },
    };
  });
}
