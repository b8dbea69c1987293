/** A library of NVIDIA's that sessions on a GPU need, and where it comes from. */
export interface CudaLibrary {
  /** As the loader looks for it. */
  readonly name: string;
  /** The package that brings it; undefined for the driver's own. */
  readonly package: string | undefined;
}

/** The CUDA that the provider of this version of ONNX Runtime is built for. */
export const CUDA_MAJOR = 13;

/** Oldest driver for that CUDA. */
export const DRIVER_FROM = 580;

/** What the provider is linked with, in the order in which the loader misses them. */
export const LINKED_LIBRARIES: readonly CudaLibrary[] = [
  { name: 'libcublasLt.so.13', package: 'nvidia-cublas' },
  { name: 'libcublas.so.13', package: 'nvidia-cublas' },
  { name: 'libcurand.so.10', package: 'nvidia-curand' },
  { name: 'libcudart.so.13', package: 'nvidia-cuda-runtime' },
  { name: 'libcuda.so.1', package: undefined },
];

/** Loaded by the first run of a convolution, a pooling or a normalisation, not before. */
export const CUDNN: CudaLibrary = { name: 'libcudnn.so.9', package: 'nvidia-cudnn-cu13' };

export const CUDART = 'libcudart.so.13';

/**
 * Whether the provider has code for a device of this compute capability: it brings sm_75, 80, 86, 89, 90a and 120a and no
 * PTX. Code runs on the same or a later minor version, and code with an `a` on its own version alone.
 */
export function hasCodeFor(major: number, minor: number): boolean {
  if (major === 7) return minor >= 5;
  if (major === 8) return true;
  return (major === 9 || major === 12) && minor === 0;
}

export const ARCHITECTURES = '7.5, 8.x, 9.0 and 12.0 (T4, A100, A10, L4, H100, H200, RTX 20 to 50)';
