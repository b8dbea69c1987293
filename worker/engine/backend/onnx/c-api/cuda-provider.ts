import { pointerFrom } from './api.ts';
import type { OrtFunctions, Pointer } from './functions.ts';
import { assertOk } from './status.ts';

export interface CudaSettings {
  readonly gpu: number;
  /** By ONNX Runtime's names and in its words. */
  readonly options: Readonly<Record<string, string>>;
  /** Whether the session is refused when a node of it would run on the CPU. */
  readonly strict: boolean;
}

/** Has a session run on a GPU. Loads the provider when it is the first. @throws OrtCallError */
export function appendCuda(ort: OrtFunctions, sessionOptions: Pointer, settings: CudaSettings): void {
  const { gpu, options, strict } = settings;
  const cuda = pointerFrom(ort, (out) => ort.CreateCUDAProviderOptions(out));
  try {
    const entries = Object.entries({ ...options, device_id: String(gpu) });
    const keys = entries.map(([key]) => key);
    const values = entries.map(([, value]) => value);
    assertOk(ort, ort.UpdateCUDAProviderOptions(cuda, keys, values, entries.length));
    assertOk(ort, ort.SessionOptionsAppendExecutionProvider_CUDA_V2(sessionOptions, cuda));
  } finally {
    ort.ReleaseCUDAProviderOptions(cuda);
  }
  if (strict) assertOk(ort, ort.AddSessionConfigEntry(sessionOptions, 'session.disable_cpu_ep_fallback', '1'));
  // Costs nothing while it runs, and is the one way to know where each node went.
  assertOk(ort, ort.AddSessionConfigEntry(sessionOptions, 'session.record_ep_graph_assignment_info', '1'));
}
