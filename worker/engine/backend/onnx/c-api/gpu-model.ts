import { InferError } from '../../../../../shared/errors.ts';
import type { GpuOptions } from '../../../../../shared/model/gpu-options.ts';
import type { GpuUse, LoadedModel, LoadOptions } from '../../../instance/instance.ts';
import { cudaProblemText } from '../gpu/cuda-error.ts';
import { gpuLoadError } from '../gpu/gpu-error.ts';
import { SessionRoom } from '../gpu/gpu-room.ts';
import { weightBytes } from '../gpu/weight-bytes.ts';
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

const CONVOLUTION = /^(?:Nhwc|Fused)?Conv(?:Transpose)?$/;

/** The provider's option for how it finds the way to compute one, and its default: by trying all of them for each new shape. */
const SEARCH = 'cudnn_conv_algo_search';
const EXHAUSTIVE = 'EXHAUSTIVE';

const SHOWN_NODES = 5;

/** A model with instances on GPUs: a session for each of them, and one that those on the CPU share. */
export async function loadOnGpus(
  api: Api,
  gpus: Gpus,
  options: LoadOptions,
  gpuOptions: GpuOptions,
): Promise<LoadedModel> {
  const { instances, provider, tensorRt } = gpuOptions;
  const missing = tensorRt && gpus.tensorRtProblem();
  if (missing) throw new InferError('UNAVAILABLE', `accelerator "tensorrt": ${cudaProblemText(missing)}`);
  const numbers = Object.keys(instances).map(Number);
  const weights = await weightBytes(options.path);
  const room = new SessionRoom(weights, (gpu, sessions) => gpus.hold(gpu, weights, sessions));
  room.prepare(instances);
  // Both measured before the first of its sessions, so that all of them get the same.
  const freeBefore = new Map(numbers.map((gpu) => [gpu, gpus.freeBytes(gpu)]));
  const limits = new Map(numbers.map((gpu) => [gpu, gpus.memoryLimit(gpu, instances[gpu] ?? 1)]));
  const open = (gpu: number): Promise<Opened> =>
    room.open(gpu, () => openOnGpu(api, gpus, options, gpuOptions, gpu, limits.get(gpu)));
  let opened: Opened;
  try {
    opened = await open(numbers[0] ?? 0);
  } catch (error) {
    room.drop();
    throw error;
  }
  const { graph, remark, convolves } = opened;
  let unused: SharedSession | undefined = opened.session;
  let cpu: Promise<SharedSession> | undefined;
  let closed: Promise<void> | undefined;
  const close = async (): Promise<void> => {
    room.drop();
    const shared = await cpu?.catch(() => undefined); // what could not be opened has nothing to free
    for (const session of [unused, shared]) if (session) await closeSession(api, session.pointer);
  };
  return {
    ...graph,
    remark,
    gpu: {
      fewSizes: tensorRt !== undefined || (convolves && (provider[SEARCH] ?? EXHAUSTIVE) === EXHAUSTIVE),
      memory: () => numbers.flatMap((gpu) => useOf(gpu, freeBefore.get(gpu), gpus.freeBytes(gpu))),
    },
    async createInstance(gpu) {
      if (gpu === undefined) return new CApiInstance(await (cpu ??= openOnCpu(api, options)));
      const session = unused?.gpu === gpu ? unused : (await open(gpu)).session;
      if (session === unused) unused = undefined;
      return new CApiInstance(session, () => closeSession(api, session.pointer));
    },
    close: () => (closed ??= close()),
  };
}

/** What the load has taken, as far as nothing else has taken or given back memory meanwhile. */
function useOf(gpu: number, before: number | undefined, freeBytes: number | undefined): GpuUse[] {
  if (before === undefined || freeBytes === undefined) return [];
  return [{ gpu, usedBytes: Math.max(0, before - freeBytes), freeBytes }];
}

interface Opened {
  readonly session: SharedSession;
  readonly graph: ReturnType<typeof readGraph>;
  readonly remark: string;
  /** Has a convolution that runs on the GPU. */
  readonly convolves: boolean;
}

async function openOnGpu(
  api: Api,
  gpus: Gpus,
  options: LoadOptions,
  { provider, tensorRt, only }: GpuOptions,
  gpu: number,
  limit: number | undefined,
): Promise<Opened> {
  const memory: Record<string, string> = limit === undefined ? {} : { gpu_mem_limit: String(limit) };
  const settings = { gpu, options: { ...memory, ...provider }, tensorRt, strict: false };
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
    const convolves = nodes?.some(({ provider: on, operator }) => on === ON_GPU && CONVOLUTION.test(operator)) ?? false;
    return { session, graph, remark, convolves };
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
