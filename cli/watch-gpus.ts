import type { Registry } from 'prom-client';
import { registerGpuMetrics } from '../shared/runtime/gpu-metrics.ts';
import { GpuWatch } from '../shared/runtime/gpu-watch.ts';
import type { Logger } from '../shared/runtime/logger.ts';
import { findGpuFolder } from './gpu-dir.ts';

/** Adds the figures of the GPUs where GPU support is installed. Returns what ends it. */
export function watchGpus(gpuDir: string | undefined, registry: Registry, logger: Logger): () => void {
  if (!findGpuFolder(gpuDir)) return () => undefined;
  const watch = new GpuWatch(logger);
  watch.start();
  registerGpuMetrics(registry, () => watch.readings());
  return () => watch.close();
}
