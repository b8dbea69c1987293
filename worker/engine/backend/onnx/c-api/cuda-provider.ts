import { pointerFrom } from './api.ts';
import type { OrtFunctions, Pointer } from './functions.ts';
import { assertOk } from './status.ts';

export interface CudaSettings {
  readonly gpu: number;
  /** By ONNX Runtime's names and in its words. */
  readonly options: Options;
  /** Those of TensorRT, which comes first then. */
  readonly tensorRt?: Options | undefined;
  /** Whether the session is refused when a node of it would run on the CPU. */
  readonly strict: boolean;
}

type Options = Readonly<Record<string, string>>;

/** The four functions of a provider whose options are an object of the library. */
interface ProviderFunctions {
  readonly create: OrtFunctions['CreateCUDAProviderOptions'];
  readonly update: OrtFunctions['UpdateCUDAProviderOptions'];
  readonly append: OrtFunctions['SessionOptionsAppendExecutionProvider_CUDA_V2'];
  readonly release: OrtFunctions['ReleaseCUDAProviderOptions'];
}

/** Has a session run on a GPU. Loads the provider when it is the first. @throws OrtCallError */
export function appendCuda(ort: OrtFunctions, sessionOptions: Pointer, settings: CudaSettings): void {
  const { gpu, options, tensorRt, strict } = settings;
  if (tensorRt) {
    const functions = {
      create: ort.CreateTensorRTProviderOptions,
      update: ort.UpdateTensorRTProviderOptions,
      append: ort.SessionOptionsAppendExecutionProvider_TensorRT_V2,
      release: ort.ReleaseTensorRTProviderOptions,
    };
    append(ort, sessionOptions, functions, gpu, tensorRt);
  }
  const functions = {
    create: ort.CreateCUDAProviderOptions,
    update: ort.UpdateCUDAProviderOptions,
    append: ort.SessionOptionsAppendExecutionProvider_CUDA_V2,
    release: ort.ReleaseCUDAProviderOptions,
  };
  append(ort, sessionOptions, functions, gpu, options);
  if (strict) assertOk(ort, ort.AddSessionConfigEntry(sessionOptions, 'session.disable_cpu_ep_fallback', '1'));
  // Costs nothing while it runs, and is the one way to know where each node went.
  assertOk(ort, ort.AddSessionConfigEntry(sessionOptions, 'session.record_ep_graph_assignment_info', '1'));
}

function append(
  ort: OrtFunctions,
  sessionOptions: Pointer,
  provider: ProviderFunctions,
  gpu: number,
  options: Options,
): void {
  const own = pointerFrom(ort, (out) => provider.create(out));
  try {
    const all = { ...options, device_id: String(gpu) };
    const keys = Object.keys(all);
    assertOk(ort, provider.update(own, keys, Object.values(all), keys.length));
    assertOk(ort, provider.append(sessionOptions, own));
  } finally {
    provider.release(own);
  }
}
