import koffi, { type LibraryHandle } from 'koffi';
import { applyKoffiSettings } from '../c-api/koffi-settings.ts';
import { type CudaProblem, explainCudaError, missingLibrary } from './cuda-error.ts';
import { CUDART, LINKED_LIBRARIES } from './cuda-libraries.ts';

/** CUDA's own functions, as far as sessions leave something to be asked. */
export interface CudaRuntime {
  /** @throws Error with CUDA's number and text, as in ONNX Runtime's errors */
  deviceCount(): number;
  /** `major.minor` of its architecture. @throws Error likewise */
  capability(gpu: number): { readonly major: number; readonly minor: number };
  /** Makes the process a user of the GPU. @throws Error likewise */
  freeBytes(gpu: number): number;
}

/** As in c-api/library.ts: a library whose handle is collected is unloaded, under whoever uses it. */
const loadedForever: LibraryHandle[] = [];

const CAPABILITY_MAJOR = 75;
const CAPABILITY_MINOR = 76;

/** Loads the libraries that the provider is linked with. Returns what is wrong with the first that cannot be loaded. */
export function loadCudaLibraries(): CudaProblem | undefined {
  for (const { name } of LINKED_LIBRARIES) {
    const problem = tryLibrary(name);
    if (problem) return problem;
  }
  return undefined;
}

/** Loads one library to see whether it can be; it stays. */
export function tryLibrary(name: string): CudaProblem | undefined {
  applyKoffiSettings();
  try {
    loadedForever.push(koffi.load(name));
    return undefined;
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error);
    // koffi cuts the name off.
    if (/: cannot open shared object file/.test(text) && !/\.so[.\d]*: cannot/.test(text)) return missingLibrary(name);
    return explainCudaError(text) ?? { stage: 'library', message: `${name} cannot be loaded (${text})`, repair: '' };
  }
}

/** @throws Error when the library cannot be loaded, which `loadCudaLibraries` finds first */
export function openCudaRuntime(): CudaRuntime {
  applyKoffiSettings();
  const library = koffi.load(CUDART);
  loadedForever.push(library);
  const errorText = library.func('const char *cudaGetErrorString(int code)') as (code: number) => string; // by its header
  const call = (name: string, ...args: string[]) => {
    const run = library.func(name, 'int', args) as (...values: unknown[]) => number; // likewise
    return (...values: unknown[]): void => {
      const code = run(...values);
      if (code !== 0) throw new Error(`CUDA failure ${code}: ${errorText(code)} ;`);
    };
  };
  const getDeviceCount = call('cudaGetDeviceCount', 'void *');
  const getAttribute = call('cudaDeviceGetAttribute', 'void *', 'int', 'int');
  const setDevice = call('cudaSetDevice', 'int');
  const getMemory = call('cudaMemGetInfo', 'void *', 'void *');
  const attribute = (which: number, gpu: number): number => {
    const out = new Int32Array(1);
    getAttribute(out, which, gpu);
    return out[0] ?? 0;
  };
  return {
    deviceCount() {
      const out = new Int32Array(1);
      getDeviceCount(out);
      return out[0] ?? 0;
    },
    capability: (gpu) => ({ major: attribute(CAPABILITY_MAJOR, gpu), minor: attribute(CAPABILITY_MINOR, gpu) }),
    freeBytes(gpu) {
      const free = new BigUint64Array(1);
      const total = new BigUint64Array(1);
      setDevice(gpu);
      getMemory(free, total);
      return Number(free[0]);
    },
  };
}
