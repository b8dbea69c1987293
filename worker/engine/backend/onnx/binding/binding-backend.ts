import { InferError } from '../../../../../shared/errors.ts';
import type { Backend, LoadedModel, LoadOptions, ModelInstance } from '../../../instance/instance.ts';
import { loadError } from '../ort-error.ts';
import { tensorTypeName } from '../type-names.ts';
import { BindingInstance, type BindingGraph } from './binding-instance.ts';
import { graphTensor } from './graph.ts';
import { SessionThread } from './session-thread.ts';

/**
 * ONNX Runtime through onnxruntime-node's own binding, for platforms where the C API cannot be reached and as a check of
 * it. Each instance is a thread with a session, that is a copy of the weights, of its own. A run cannot be stopped, BF16
 * models cannot be loaded, and texts must be UTF-8 without NUL.
 */
export function createBindingBackend(): Backend {
  return { load: loadModel };
}

async function loadModel(options: LoadOptions): Promise<LoadedModel> {
  assertPossible(options);
  const first = await startSession(options);
  let unused: SessionThread | undefined = first.thread;
  let closed: Promise<void> | undefined;
  return {
    ...first.graph,
    async createInstance(): Promise<ModelInstance> {
      const thread = unused ?? (await startSession(options)).thread;
      if (thread === unused) unused = undefined;
      return new BindingInstance(thread, first.graph);
    },
    close: () => (closed ??= unused?.quit() ?? Promise.resolve()),
  };
}

async function startSession(options: LoadOptions): Promise<{ thread: SessionThread; graph: BindingGraph }> {
  const { thread, answer } = await SessionThread.start(options);
  if (answer.type === 'loaded') {
    return { thread, graph: { inputs: answer.inputs.map(graphTensor), outputs: answer.outputs.map(graphTensor) } };
  }
  const text = 'text' in answer ? explain(answer.text) : `unexpected answer ${answer.type}`;
  throw loadError({ code: undefined, text }, options.path);
}

/** What the package has no way to ask ONNX Runtime for. */
function assertPossible({ arenaShrinkage, customOpLibraries }: LoadOptions): void {
  const fields: string[] = [];
  if (arenaShrinkage !== '') fields.push('parameter "memory.enable_memory_arena_shrinkage"');
  if (customOpLibraries.length > 0) fields.push('model_operations.op_library_filename');
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
