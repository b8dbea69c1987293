import type { Registry } from 'prom-client';
import { registerGpuMetrics } from '../shared/runtime/gpu-metrics.ts';
import { GpuWatch } from '../shared/runtime/gpu-watch.ts';
import type { GpuReading } from '../shared/runtime/gpu-readings.ts';
import type { Logger } from '../shared/runtime/logger.ts';
import { findGpuFolder } from './gpu-dir.ts';

/** The figures of the GPUs, where GPU support is installed. */
export interface GpuFigures {
  /** None where nothing tells any. */
  readings(): readonly GpuReading[];
  close(): void;
}

/** Begins to watch the GPUs and adds their figures to the metrics, where GPU support is installed. */
export function watchGpus(gpuDir: string | undefined, registry: Registry, logger: Logger): GpuFigures {
  if (!findGpuFolder(gpuDir)) return { readings: () => [], close: () => undefined };
  const watch = new GpuWatch(logger);
  watch.start();
  registerGpuMetrics(registry, () => watch.readings());
  return watch;
}
