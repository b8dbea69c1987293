import { InferError } from '../../../../../shared/errors.ts';
import type { GpuOptions } from '../../../../../shared/model/gpu-options.ts';
import type { LoadedModel, LoadOptions } from '../../../instance/instance.ts';
import { cudaProblemText } from '../gpu/cuda-error.ts';
import { gpuLoadError } from '../gpu/gpu-error.ts';
import { loadError } from '../ort-error.ts';
import type { Api } from './api.ts';
import { bindGraph } from './bound-graph.ts';
import { CApiInstance, type SharedSession } from './c-api-instance.ts';
import { appendCuda } from './cuda-provider.ts';
import type { Pointer } from './functions.ts';
import type { Gpus } from './gpus.ts';
import { readGraph } from './graph.ts';
import { type PlacedNode, placedNodes } from './placement.ts';
import { closeSession, openSession } from './session.ts';
import { failureOf } from './status.ts';

const ON_CPU = 'CPUExecutionProvider';
const ON_GPU = 'CUDAExecutionProvider';

/** Operators that were seen to fail without cuDNN, at their first run. */
const OF_CUDNN = new Set(['Conv', 'MaxPool', 'GlobalAveragePool', 'BatchNormalization', 'ReduceMean']);

const SHOWN_NODES = 5;

/** A model with instances on GPUs: a session for each of them, and one that those on the CPU share. */
export async function loadOnGpus(
  api: Api,
  gpus: Gpus,
  options: LoadOptions,
  gpuOptions: GpuOptions,
): Promise<LoadedModel> {
  const limits = new Map<number, number | undefined>();
  const open = async (gpu: number): Promise<Opened> => {
    // Measured before the first of its sessions, so that all of them get the same.
    if (!limits.has(gpu)) limits.set(gpu, gpus.memoryLimit(gpu, gpuOptions.instances[gpu] ?? 1));
    return openOnGpu(api, gpus, options, gpuOptions, gpu, limits.get(gpu));
  };
  const first = Number(Object.keys(gpuOptions.instances)[0]);
  const opened = await open(first);
  const { graph, remark } = opened;
  let unused: SharedSession | undefined = opened.session;
  let cpu: Promise<SharedSession> | undefined;
  let closed: Promise<void> | undefined;
  const close = async (): Promise<void> => {
    const shared = await cpu?.catch(() => undefined); // what could not be opened has nothing to free
    for (const session of [unused, shared]) if (session) await closeSession(api, session.pointer);
  };
  return {
    ...graph,
    remark,
    async createInstance(gpu) {
      if (gpu === undefined) return new CApiInstance(await (cpu ??= openOnCpu(api, options)));
      const session = unused?.gpu === gpu ? unused : (await open(gpu)).session;
      if (session === unused) unused = undefined;
      return new CApiInstance(session, () => closeSession(api, session.pointer));
    },
    close: () => (closed ??= close()),
  };
}

interface Opened {
  readonly session: SharedSession;
  readonly graph: ReturnType<typeof readGraph>;
  readonly remark: string;
}

async function openOnGpu(
  api: Api,
  gpus: Gpus,
  options: LoadOptions,
  { provider, only }: GpuOptions,
  gpu: number,
  limit: number | undefined,
): Promise<Opened> {
  const memory: Record<string, string> = limit === undefined ? {} : { gpu_mem_limit: String(limit) };
  const settings = { gpu, options: { ...memory, ...provider }, strict: false };
  let pointer: Pointer;
  try {
    pointer = await openSession(api, options, false, (session) => appendCuda(api.ort, session, settings));
  } catch (error) {
    throw gpuLoadError(failureOf(error), options.path, gpu);
  }
  try {
    const nodes = placedNodes(api, pointer);
    const remark = remarkOf(nodes);
    if (only && remark !== '') throw new InferError('INVALID_ARGUMENT', `gpu_only is set, and ${remark}`);
    assertRunnable(nodes ?? [], gpus);
    const graph = readGraph(api, pointer);
    const { arenaShrinkage } = options;
    const bound = bindGraph(graph);
    const session = { api, pointer, graph: bound, arenaShrinkage, shapesDiffer: false, background: false, gpu };
    return { session, graph, remark };
  } catch (error) {
    await closeSession(api, pointer);
    throw error instanceof InferError ? error : loadError(failureOf(error), options.path);
  }
}

async function openOnCpu(api: Api, options: LoadOptions): Promise<SharedSession> {
  const { arenaShrinkage, path } = options;
  try {
    const pointer = await openSession(api, options, false);
    const graph = bindGraph(readGraph(api, pointer));
    return { api, pointer, graph, arenaShrinkage, shapesDiffer: false, background: false };
  } catch (error) {
    throw loadError(failureOf(error), path);
  }
}

/** Which nodes run on the CPU, by name; '' when none does. */
function remarkOf(nodes: readonly PlacedNode[] | undefined): string {
  if (!nodes) return 'it cannot be told which of its nodes run on the CPU';
  const onCpu = nodes.filter(({ provider }) => provider === ON_CPU);
  if (onCpu.length === 0) return '';
  const shown = onCpu
    .slice(0, SHOWN_NODES)
    .map(({ operator, name }) => (name === '' ? operator : `${operator} "${name}"`));
  const more = onCpu.length > SHOWN_NODES ? ` and ${onCpu.length - SHOWN_NODES} more` : '';
  return `${onCpu.length} of ${nodes.length} nodes run on the CPU: ${shown.join(', ')}${more}`;
}

/** @throws InferError UNAVAILABLE for a model that would fail at its first run for want of cuDNN */
function assertRunnable(nodes: readonly PlacedNode[], gpus: Gpus): void {
  const needs = nodes.find(({ provider, operator }) => provider === ON_GPU && OF_CUDNN.has(operator));
  const problem = needs && gpus.cudnnProblem();
  if (!problem) return;
  throw new InferError('UNAVAILABLE', `the model has a ${needs.operator}: ${cudaProblemText(problem)}`);
}
