import type { Devices } from '../../../../../shared/model/devices.ts';
import { type CudaProblem, cudaProblemText, explainCudaError } from './cuda-error.ts';
import { type CudaRuntime, loadCudaLibraries, openCudaRuntime } from './cuda-runtime.ts';

export interface FoundDevices {
  readonly devices: Devices;
  /** Undefined where there is no device to ask about. */
  readonly runtime: CudaRuntime | undefined;
}

/**
 * Looks for GPUs, step by step as far as it goes. Never rejects.
 * @param problem what keeps the installed files from being used; nothing of them is touched then
 * @param attempt uses one GPU as a model would
 */
export async function findDevices(
  problem: CudaProblem | undefined,
  attempt: (gpu: number) => Promise<void>,
): Promise<FoundDevices> {
  const none = (reason: string) => ({ devices: { gpus: [], installed: true, reason }, runtime: undefined });
  const missing = problem ?? loadCudaLibraries();
  if (missing) return none(cudaProblemText(missing));
  let runtime: CudaRuntime;
  let count: number;
  try {
    runtime = openCudaRuntime();
    count = runtime.deviceCount();
  } catch (error) {
    return none(reasonOf(error));
  }
  const gpus: number[] = [];
  const reasons: string[] = [];
  for (let gpu = 0; gpu < count; gpu += 1) {
    try {
      await attempt(gpu);
      gpus.push(gpu);
    } catch (error) {
      reasons.push(count === 1 ? reasonOf(error, gpu) : `GPU ${gpu}: ${reasonOf(error, gpu)}`);
    }
  }
  return { devices: { gpus, installed: true, reason: reasons.join('; ') }, runtime };
}

function reasonOf(error: unknown, gpu?: number): string {
  const text = error instanceof Error ? error.message : String(error);
  const problem = explainCudaError(text, gpu);
  return problem ? cudaProblemText(problem) : text;
}
