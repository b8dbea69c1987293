import { pointerFrom } from './api.ts';
import type { OrtFunctions, Pointer } from './functions.ts';
import { assertOk } from './status.ts';

export interface CudaSettings {
  readonly gpu: number;
  /** By ONNX Runtime's names and in its words. */
  readonly options: Readonly<Record<string, string>>;
  /** Those of TensorRT, which comes first then. */
  readonly tensorRt?: Readonly<Record<string, string>> | undefined;
  /** Whether the session is refused when a node of it would run on the CPU. */
  readonly strict: boolean;
}

/** Has a session run on a GPU. Loads the provider when it is the first. @throws OrtCallError */
export function appendCuda(ort: OrtFunctions, sessionOptions: Pointer, settings: CudaSettings): void {
  const { gpu, options, tensorRt, strict } = settings;
  if (tensorRt) appendTensorRt(ort, sessionOptions, gpu, tensorRt);
  const cuda = pointerFrom(ort, (out) => ort.CreateCUDAProviderOptions(out));
  try {
    const { keys, values } = listsOf({ ...options, device_id: String(gpu) });
    assertOk(ort, ort.UpdateCUDAProviderOptions(cuda, keys, values, keys.length));
    assertOk(ort, ort.SessionOptionsAppendExecutionProvider_CUDA_V2(sessionOptions, cuda));
  } finally {
    ort.ReleaseCUDAProviderOptions(cuda);
  }
  if (strict) assertOk(ort, ort.AddSessionConfigEntry(sessionOptions, 'session.disable_cpu_ep_fallback', '1'));
  // Costs nothing while it runs, and is the one way to know where each node went.
  assertOk(ort, ort.AddSessionConfigEntry(sessionOptions, 'session.record_ep_graph_assignment_info', '1'));
}

/** @throws OrtCallError */
function appendTensorRt(
  ort: OrtFunctions,
  sessionOptions: Pointer,
  gpu: number,
  options: Readonly<Record<string, string>>,
): void {
  const tensorRt = pointerFrom(ort, (out) => ort.CreateTensorRTProviderOptions(out));
  try {
    const { keys, values } = listsOf({ ...options, device_id: String(gpu) });
    assertOk(ort, ort.UpdateTensorRTProviderOptions(tensorRt, keys, values, keys.length));
    assertOk(ort, ort.SessionOptionsAppendExecutionProvider_TensorRT_V2(sessionOptions, tensorRt));
  } finally {
    ort.ReleaseTensorRTProviderOptions(tensorRt);
  }
}

function listsOf(options: Readonly<Record<string, string>>): { keys: string[]; values: string[] } {
  return { keys: Object.keys(options), values: Object.values(options) };
}
