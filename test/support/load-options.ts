import type { LoadOptions } from '../../worker/engine/instance/instance.ts';

/** What a config without parameters means, for the model file at `path`. */
export function loadOptions(path: string): LoadOptions {
  return {
    path,
    intraOpNumThreads: 1,
    interOpNumThreads: 1,
    executionMode: 'sequential',
    graphOptimizationLevel: 'all',
    enableCpuMemArena: true,
    enableMemPattern: true,
    exactInt8: true,
    sessionEntries: {},
    arenaShrinkage: '',
    customOpLibraries: [],
  };
}
