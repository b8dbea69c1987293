import koffi from 'koffi';
import { BackgroundCalls } from './background-calls.ts';
import type { Memory, OrtFunctions, PlacementFunctions, Pointer, Status } from './functions.ts';
import { loadLibrary, type Library } from './library.ts';
import { assertOk } from './status.ts';

/** The library with what is made once per process: the environment, the default allocator, the name of the CPU's memory. */
export interface Api {
  readonly ort: OrtFunctions;
  readonly native: Library['native'];
  readonly placement: PlacementFunctions | undefined;
  readonly background: BackgroundCalls;
  readonly copy: Library['copy'];
  readonly trimSoon: Library['trimSoon'];
  readonly env: Pointer;
  readonly allocator: Pointer;
  readonly cpuMemory: Pointer;
  /** Sessions have no threads of their own. */
  readonly sharedThreads: boolean;
}

/** Threads that all sessions share, as numbers for ONNX Runtime; 0 lets it choose. */
export interface GlobalThreads {
  readonly intraOp: number;
  readonly interOp: number;
}

/** Only what ends the process is written to stderr by the library itself; everything else comes back as a status. */
const LOG_FATAL = 4;
const ENV_NAME = 'millrace';
const ARENA_ALLOCATOR = 1;
const DEFAULT_MEMORY = 0;

/**
 * Opens the C API. What it holds lives as long as the process: there is one environment, and sessions refer to it.
 * @param core path of the library, where it is not the package's own
 * @throws InferError UNAVAILABLE
 */
export function openApi(globalThreads?: GlobalThreads, core?: string): Api {
  const { ort, native, placement, copy, trimSoon } = loadLibrary(core);
  return {
    ort,
    native,
    placement,
    background: new BackgroundCalls(),
    copy,
    trimSoon,
    env: globalThreads
      ? createSharedEnv(ort, globalThreads)
      : pointerFrom(ort, (out) => ort.CreateEnv(LOG_FATAL, ENV_NAME, out)),
    allocator: pointerFrom(ort, (out) => ort.GetAllocatorWithDefaultOptions(out)),
    cpuMemory: pointerFrom(ort, (out) => ort.CreateCpuMemoryInfo(ARENA_ALLOCATOR, DEFAULT_MEMORY, out)),
    sharedThreads: globalThreads !== undefined,
  };
}

function createSharedEnv(ort: OrtFunctions, { intraOp, interOp }: GlobalThreads): Pointer {
  const threading = pointerFrom(ort, (out) => ort.CreateThreadingOptions(out));
  try {
    assertOk(ort, ort.SetGlobalIntraOpNumThreads(threading, intraOp));
    assertOk(ort, ort.SetGlobalInterOpNumThreads(threading, interOp));
    assertOk(ort, ort.SetGlobalSpinControl(threading, 0)); // as in sessions with threads of their own
    return pointerFrom(ort, (out) => ort.CreateEnvWithGlobalThreadPools(LOG_FATAL, ENV_NAME, threading, out));
  } finally {
    ort.ReleaseThreadingOptions(threading);
  }
}

/** The pointer that a call writes. Not for the hot path. @throws OrtCallError */
export function pointerFrom(ort: OrtFunctions, call: (out: Memory) => Status): Pointer {
  const out = new BigUint64Array(1);
  assertOk(ort, call(out));
  return out[0] ?? 0n;
}

/** The size_t or pointer-sized number that a call writes. @throws OrtCallError */
export function numberFrom(ort: OrtFunctions, call: (out: Memory) => Status): number {
  return Number(pointerFrom(ort, call));
}

/** The C `int` that a call writes. @throws OrtCallError */
export function intFrom(ort: OrtFunctions, call: (out: Memory) => Status): number {
  const out = new Int32Array(1);
  assertOk(ort, call(out));
  return out[0] ?? 0;
}

/** The text that a call allocates; freed once read. @throws OrtCallError */
export function textFrom(api: Api, call: (out: Memory) => Status): string {
  const pointer = pointerFrom(api.ort, call);
  const text = koffi.decode.string(pointer);
  assertOk(api.ort, api.ort.AllocatorFree(api.allocator, pointer));
  return text;
}
