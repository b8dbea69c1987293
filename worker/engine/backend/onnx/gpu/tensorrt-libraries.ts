import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { CudaProblem } from './cuda-error.ts';
import { tryLibrary } from './cuda-runtime.ts';

const PROVIDER = 'libonnxruntime_providers_tensorrt.so';

/** What the provider is linked with, beside CUDA. No package index has them. */
const LIBRARIES = ['libnvinfer.so.10', 'libnvonnxparser.so.10'];

const FROM_NVIDIA =
  "install TensorRT 10 for CUDA 13 from NVIDIA's container or package repository, onto the loader's path";
const FROM_WHEEL =
  'copy it from the wheel of onnxruntime-gpu of the same version into the folder ort of the GPU folder';

/**
 * What keeps TensorRT from being used; undefined when all is there.
 * @param providers the folder in which ONNX Runtime looks for its providers
 */
export function tensorRtProblem(providers: string): CudaProblem | undefined {
  if (!existsSync(join(providers, PROVIDER))) {
    return { stage: 'provider', message: `TensorRT: ${PROVIDER} not found`, repair: FROM_WHEEL };
  }
  for (const name of LIBRARIES) {
    const problem = tryLibrary(name);
    if (problem) return { stage: 'library', message: `TensorRT: ${name} cannot be loaded`, repair: FROM_NVIDIA };
  }
  return undefined;
}
