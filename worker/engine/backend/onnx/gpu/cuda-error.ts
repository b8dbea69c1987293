import { CUDA_MAJOR, CUDNN, DRIVER_FROM, LINKED_LIBRARIES } from './cuda-libraries.ts';

/** Where on the way to a run on the GPU something is missing. */
export type CudaStage = 'provider' | 'library' | 'driver' | 'device' | 'memory' | 'cudnn' | 'fallback' | 'other';

export interface CudaProblem {
  readonly stage: CudaStage;
  /** What is wrong, for a person. */
  readonly message: string;
  /** What to do about it; '' where nobody knows. */
  readonly repair: string;
}

const INSTALL = 'run millrace gpu install';

/** What ONNX Runtime, the loader or CUDA said, in words that a person can act on; undefined for what is none of it. */
export function explainCudaError(text: string, gpu?: number): CudaProblem | undefined {
  for (const [pattern, explain] of PATTERNS) {
    const match = pattern.exec(text);
    if (match) return explain(match, gpu);
  }
  return undefined;
}

/** `GPU memory exhausted …: set gpu_mem_limit …`, as one text. */
export function cudaProblemText({ message, repair }: CudaProblem): string {
  return repair === '' ? message : `${message}: ${repair}`;
}

type Explain = (match: RegExpExecArray, gpu: number | undefined) => CudaProblem;

const PATTERNS: readonly (readonly [RegExp, Explain])[] = [
  [/CUDA failure (\d+): ([^;]*?) ?(?:;|$)/, ([, code, text], gpu) => cudaFailure(Number(code), text ?? '', gpu)],
  [/cuDNN is unavailable|dlopen failed for libcudnn/, () => missingLibrary(CUDNN.name)],
  [
    /CUDNN failure (\d+): (\w+)/,
    ([, code, text]) => ({ stage: 'cudnn', message: `cuDNN failed with ${code ?? ''}, ${text ?? ''}`, repair: '' }),
  ],
  [/explicitly disabled by the user/, () => fallback],
  [
    /(lib[\w-]+\.so[.\d]*): cannot open shared object file/,
    ([, name]) => (name?.startsWith('libonnxruntime_providers') ? noProvider : missingLibrary(name ?? '')),
  ],
  [
    /undefined symbol: (\S+?), version (lib[\w-]+)\.so/,
    ([, symbol, name]) => ({
      stage: 'library',
      message: `${name ?? ''} is older than the provider, it has no ${symbol ?? ''}`,
      repair: INSTALL,
    }),
  ],
  [/(?:([\w.-]+): )?file too short/, ([, name]) => damaged(name ?? 'a library of the GPU folder')],
  [/CUDNN_STATUS_ALLOC_FAILED|CUBLAS_STATUS_ALLOC_FAILED|CUDA out of memory/, () => exhausted],
  // The second is how the arena says that its limit is reached.
  [/Failed to allocate memory|Available memory of \d+ is smaller|bfc_arena/, () => exhausted],
  [/Failed to load shared library/, () => noProvider],
];

function cudaFailure(code: number, text: string, gpu: number | undefined): CudaProblem {
  if (code === 2) return exhausted;
  const known = CUDA_FAILURES.get(code)?.(gpu);
  return known ?? { stage: 'device', message: `CUDA failure ${code}: ${text}`, repair: '' };
}

const CUDA_FAILURES: ReadonlyMap<number, (gpu: number | undefined) => CudaProblem> = new Map<
  number,
  (gpu: number | undefined) => CudaProblem
>([
  [
    35,
    () => ({
      stage: 'driver',
      message: `driver too old for CUDA ${CUDA_MAJOR}`,
      repair: `update the driver to ${DRIVER_FROM} or later`,
    }),
  ],
  [
    100,
    () => ({
      stage: 'device',
      message: 'driver present, no GPU visible',
      repair: 'look at CUDA_VISIBLE_DEVICES, and start a container with --gpus all',
    }),
  ],
  [
    101,
    (gpu) => ({
      stage: 'device',
      message: `GPU ${gpu ?? '?'} does not exist`,
      repair: 'see nvidia-smi -L for those that do',
    }),
  ],
  [
    209,
    (gpu) => ({
      stage: 'device',
      message: `the provider has no code for GPU ${gpu ?? '?'}`,
      repair: 'run millrace gpu check, which lists the architectures that it has code for',
    }),
  ],
]);

const noProvider: CudaProblem = { stage: 'provider', message: 'CUDA provider not installed', repair: INSTALL };

const exhausted: CudaProblem = {
  stage: 'memory',
  message: 'GPU memory exhausted',
  repair: 'lower max_batch_size or the count of instances, or raise gpu_mem_limit where it is set',
};

const fallback: CudaProblem = {
  stage: 'fallback',
  message: 'model has operators without a CUDA kernel',
  repair: 'take gpu_only out to run them on the CPU',
};

/** A library that the loader does not find. */
export function missingLibrary(name: string): CudaProblem {
  if (name.startsWith('libcuda.so')) {
    const message = 'no NVIDIA driver visible (libcuda.so.1 not found)';
    return { stage: 'driver', message, repair: 'install the driver; in a container: start it with --gpus all' };
  }
  const found = [...LINKED_LIBRARIES, CUDNN].find((library) => library.name === name);
  const from = found?.package === undefined ? '' : `: package ${found.package}`;
  const stage = name.startsWith('libcudnn') ? 'cudnn' : 'library';
  return { stage, message: `${name} not found${from}`, repair: INSTALL };
}

export function damaged(name: string): CudaProblem {
  return { stage: 'library', message: `${name} is damaged or cut short`, repair: INSTALL };
}
