import { InferError } from '../../../../../shared/errors.ts';
import type { Backend, LoadedModel, LoadOptions, ModelInstance } from '../../../instance/instance.ts';
import { type FoundDevices, findDevices } from '../gpu/find-devices.ts';
import { gpuLoadError } from '../gpu/gpu-error.ts';
import { type GpuFolder, problemOfFolder } from '../gpu/gpu-folder.ts';
import { loadError } from '../ort-error.ts';
import { tensorTypeName } from '../type-names.ts';
import { BindingInstance, type BindingGraph } from './binding-instance.ts';
import { graphTensor } from './graph.ts';
import type { ThreadOptions } from './messages.ts';
import { SessionThread } from './session-thread.ts';

/** What the model has on the CPU is known only as far as opening it that way goes. */
const SOME_ON_CPU = "some nodes run on the CPU; onnxruntime-node's binding cannot tell which";

/**
 * ONNX Runtime through onnxruntime-node's own binding, for platforms where the C API cannot be reached and as a check of
 * it. Each instance is a thread with a session, that is a copy of the weights, of its own. A run cannot be stopped, BF16
 * models cannot be loaded, and texts must be UTF-8 without NUL. Of a GPU only its number can be chosen.
 * @param folder GPU support, where it is installed and on the loader's search path
 */
export function createBindingBackend(folder?: GpuFolder): Backend {
  if (!folder) return { load: loadModel };
  let found: Promise<FoundDevices> | undefined;
  return {
    load: loadModel,
    devices: async () => {
      found ??= findDevices(problemOfFolder(folder), () => Promise.resolve());
      return (await found).devices;
    },
  };
}

async function loadModel(options: LoadOptions): Promise<LoadedModel> {
  assertPossible(options);
  const gpu = options.gpu && Number(Object.keys(options.gpu.instances)[0]);
  const first = await startSession(options, gpu);
  let unused: SessionThread | undefined = first.thread;
  let closed: Promise<void> | undefined;
  return {
    ...first.graph,
    remark: first.remark,
    async createInstance(place): Promise<ModelInstance> {
      const thread = unused && place === gpu ? unused : (await startSession(options, place)).thread;
      if (thread === unused) unused = undefined;
      return new BindingInstance(thread, first.graph);
    },
    close: () => (closed ??= unused?.quit() ?? Promise.resolve()),
  };
}

interface Started {
  readonly thread: SessionThread;
  readonly graph: BindingGraph;
  readonly remark: string;
}

async function startSession(options: LoadOptions, gpu: number | undefined): Promise<Started> {
  if (gpu === undefined) return startThread(options, undefined, '');
  try {
    return await startThread({ ...options, device: gpu, strict: true }, gpu, '');
  } catch (error) {
    const refused = error instanceof InferError && error.code === 'INVALID_ARGUMENT' && !options.gpu?.only;
    if (!refused) throw error;
    return startThread({ ...options, device: gpu }, gpu, SOME_ON_CPU);
  }
}

async function startThread(options: ThreadOptions, gpu: number | undefined, remark: string): Promise<Started> {
  const { thread, answer } = await SessionThread.start(options);
  if (answer.type === 'loaded') {
    const graph = { inputs: answer.inputs.map(graphTensor), outputs: answer.outputs.map(graphTensor) };
    return { thread, graph, remark };
  }
  const text = 'text' in answer ? explain(answer.text) : `unexpected answer ${answer.type}`;
  const failure = { code: undefined, text };
  throw gpu === undefined ? loadError(failure, options.path) : gpuLoadError(failure, options.path, gpu);
}

/** What the package has no way to ask ONNX Runtime for. */
function assertPossible({ arenaShrinkage, customOpLibraries, gpu }: LoadOptions): void {
  const fields: string[] = [];
  if (arenaShrinkage !== '') fields.push('parameter "memory.enable_memory_arena_shrinkage"');
  if (customOpLibraries.length > 0) fields.push('model_operations.op_library_filename');
  for (const key of Object.keys(gpu?.provider ?? {})) fields.push(`parameter "${key}"`);
  if (gpu?.tensorRt) fields.push('accelerator "tensorrt"');
  if (fields.length === 0) return;
  const text = `onnxruntime-node's binding does not support ${fields.join(' and ')}: serve with --onnxruntime-api=c`;
  throw new InferError('UNIMPLEMENTED', text);
}

/** The package says only a number for a type that it does not know. */
function explain(text: string): string {
  const type = /^Unsupported data type: (\d+)$/.exec(text)?.[1];
  if (type === undefined) return text;
  return `an input or output is of type ${tensorTypeName(Number(type))}, which onnxruntime-node's binding cannot carry`;
}
